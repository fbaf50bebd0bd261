#include "server/control/devices/device_board.h"

#include <gtest/gtest.h>

#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/state/state_editor.h"
#include "scheduler/step/step.h"
#include "server/control/records/ledger.h"

namespace gpupool::server {
namespace {

using scheduler::AttemptRef;
using scheduler::JobId;

class DeviceBoardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    board.AddDevice("cpu:0", 100, 2);
    const auto device = ledger.state.AddDevice("cpu:0", "cpu", 100);
    Step(ledger.state, scheduler::WorkerReady{.device = device}, now);
    board.SetReady("cpu:0", {});
  }
  void PlaceJob() {
    Step(ledger.state, scheduler::JobSubmitted{.id = JobId(1), .bytes = 60},
         now);
    board.Publish(ledger, false, now);
  }
  std::vector<Disagreement> Beat(bool with_job) {
    worker::v1::Heartbeat heartbeat;
    if (with_job) {
      heartbeat.add_running()->set_job_id(1);
      heartbeat.mutable_running(0)->set_attempt(1);
    }
    return board.TakeHeartbeat("cpu:0", heartbeat, now);
  }

  Ledger ledger;
  DeviceBoard board;
  absl::Time now = absl::UnixEpoch();
};

TEST_F(DeviceBoardTest, ShowsPlacementsAndFits) {
  PlaceJob();
  const v1::Device device = board.List()[0];
  EXPECT_EQ(device.committed_bytes(), 60u);
  EXPECT_EQ(device.threads(), 2u);
  const auto fits = board.Fits(50, v1::JobSpec());
  EXPECT_FALSE(fits[0].fits_now());
  EXPECT_TRUE(fits[0].fits_ever());
  v1::JobSpec cuda;
  cuda.set_device("cuda");
  EXPECT_FALSE(board.Fits(10, cuda)[0].fits_ever());
  EXPECT_EQ(board.live_attempts(), 1u);
}

TEST_F(DeviceBoardTest, ShowsTheEnergySinceTheStart) {
  worker::v1::Heartbeat heartbeat;
  heartbeat.mutable_readings()->set_temperature_celsius(50);
  heartbeat.mutable_readings()->set_energy_joules(1e9);  // not its to tell
  board.TakeHeartbeat("cpu:0", heartbeat, now);
  EXPECT_FALSE(board.Find("cpu:0").readings().has_energy_joules());
  heartbeat.mutable_readings()->set_power_watts(300);
  board.TakeHeartbeat("cpu:0", heartbeat, now);
  EXPECT_TRUE(board.Find("cpu:0").readings().has_energy_joules());
  EXPECT_EQ(board.Find("cpu:0").readings().energy_joules(), 0);
  now += absl::Seconds(2);
  board.TakeHeartbeat("cpu:0", heartbeat, now);
  EXPECT_EQ(board.Find("cpu:0").readings().energy_joules(), 600);
  EXPECT_EQ(board.TakeEnergy("cpu:0").joules, 600);
  board.SetLost("cpu:0", absl::UnavailableError("it ended"));
  now += absl::Hours(1);  // the power in a long gap is unknown
  board.TakeHeartbeat("cpu:0", heartbeat, now);
  EXPECT_EQ(board.Find("cpu:0").readings().energy_joules(), 600);
}

TEST_F(DeviceBoardTest, ShowsWhatAGpuIsAndTellsUntilItsWorkerIsLost) {
  worker::v1::HelloReply hello;
  hello.mutable_info()->mutable_gpu()->set_uuid("GPU-1");
  hello.mutable_info()->mutable_peak_rates()->set_bytes(5e11);
  board.SetReady("cpu:0", hello);
  worker::v1::Heartbeat heartbeat;
  heartbeat.mutable_readings()->set_power_watts(300);
  board.TakeHeartbeat("cpu:0", heartbeat, now);
  Beat(false);  // less often than heartbeats
  EXPECT_EQ(board.Find("cpu:0").gpu().uuid(), "GPU-1");
  EXPECT_EQ(board.Find("cpu:0").readings().power_watts(), 300);
  EXPECT_EQ(board.List()[0].readings().power_watts(), 300);
  board.SetLost("cpu:0", absl::UnavailableError("it ended"));
  EXPECT_FALSE(board.Find("cpu:0").has_readings());
  EXPECT_TRUE(board.Find("cpu:0").has_gpu());
  EXPECT_EQ(board.Find("cpu:0").peak_rates().bytes(), 5e11);
  board.SetReady("cpu:0", {});
  EXPECT_FALSE(board.Find("cpu:0").has_gpu());
  EXPECT_FALSE(board.Find("cpu:0").has_peak_rates());
  EXPECT_EQ(board.Find("cpu:9").name(), "");
}

TEST_F(DeviceBoardTest, RatesThatWereMeasuredBesideWorkAreNotShown) {
  v1::DeviceBench bench;
  bench.set_device("cpu:0");
  bench.set_threads(2);
  v1::DeviceBench::Product& product = *bench.add_products();
  product.set_data_type("float32");
  product.set_flops(5e9);
  board.SetMeasured(bench);
  EXPECT_EQ(board.List()[0].measured_rates().float32_flops(), 5e9);
  product.set_flops(1e9);
  bench.set_beside_work(true);
  board.SetMeasured(bench);
  EXPECT_EQ(board.List()[0].measured_rates().float32_flops(), 5e9);
}

TEST_F(DeviceBoardTest, AgreementIsNoMismatch) {
  PlaceJob();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Beat(true).empty());
    now += absl::Seconds(1);
  }
  const v1::ReconcileState state = board.Reconcile();
  EXPECT_TRUE(state.attempts(0).in_store());
  EXPECT_TRUE(state.attempts(0).on_worker());
  EXPECT_EQ(state.mismatches_total(), 0u);
}

TEST_F(DeviceBoardTest, AnAttemptThatStaysAwayIsToldOnceAfterPatience) {
  PlaceJob();
  EXPECT_TRUE(Beat(false).empty());
  now += DeviceBoard::kPatience;
  EXPECT_TRUE(Beat(false).empty());
  now += absl::Milliseconds(1);
  const auto found = Beat(false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].on_worker);
  EXPECT_EQ(found[0].attempt, (AttemptRef{JobId(1), 1}));
  now += absl::Minutes(1);
  EXPECT_TRUE(Beat(false).empty());
  EXPECT_EQ(board.mismatches_total(), 1u);
}

TEST_F(DeviceBoardTest, AnAttemptThatShouldNotRunIsToldToo) {
  board.Publish(ledger, false, now);
  EXPECT_TRUE(Beat(true).empty());
  now += DeviceBoard::kPatience + absl::Milliseconds(1);
  const auto found = Beat(true);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].on_worker);
}

TEST_F(DeviceBoardTest, ReasonsOfALongQueueAreMadeAnewOnceInAWhileUnderLoad) {
  PlaceJob();
  const auto submit = [&](uint64_t id) {
    Step(ledger.state, scheduler::JobSubmitted{.id = JobId(id), .bytes = 60},
         now);
  };
  const auto publish = [&](bool more_follows) {
    return board.Publish(ledger, more_follows, now);
  };
  submit(2);
  EXPECT_TRUE(publish(true));  // a short queue
  EXPECT_NE(board.WaitingReason(2), "");
  submit(3);
  EXPECT_TRUE(publish(true));
  EXPECT_NE(board.WaitingReason(3), "");
  for (uint64_t id = 4; id <= 1500; ++id) submit(id);
  EXPECT_TRUE(publish(true));
  Step(ledger.state, scheduler::JobCancelRequested{JobId(2)}, now);
  EXPECT_FALSE(publish(true));
  EXPECT_NE(board.WaitingReason(2), "");
  EXPECT_TRUE(publish(false));
  EXPECT_EQ(board.WaitingReason(2), "");
  Step(ledger.state, scheduler::JobCancelRequested{JobId(3)}, now);
  EXPECT_FALSE(publish(true));
  now += DeviceBoard::kReasonsAge;
  EXPECT_TRUE(publish(true));
  EXPECT_EQ(board.WaitingReason(3), "");
}

TEST_F(DeviceBoardTest, ALostDeviceSaysWhyAndASuspectOneIsInQuarantine) {
  board.SetLost("cpu:0", absl::UnavailableError("killed"));
  EXPECT_EQ(board.List()[0].state(), v1::DEVICE_LOST);
  EXPECT_EQ(board.List()[0].state_reason(), "killed");
  board.SetReady("cpu:0", {});
  EXPECT_EQ(board.List()[0].state_reason(), "");
  board.SetLost("cpu:0", absl::DataLossError("bad memory"));
  EXPECT_EQ(board.List()[0].state(), v1::DEVICE_QUARANTINED);
}

TEST_F(DeviceBoardTest, AStoppedAttemptThatIsAlreadyGoneIsToldToo) {
  scheduler::StateEditor edit(ledger.state);
  edit.AddStray(*edit.FindDevice(scheduler::DeviceId(0)),
                AttemptRef{JobId(7), 1}, 60);
  board.Publish(ledger, false, now);
  EXPECT_TRUE(Beat(false).empty());
  now += DeviceBoard::kPatience + absl::Milliseconds(1);
  const auto found = Beat(false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].on_worker);
  EXPECT_EQ(found[0].attempt, (AttemptRef{JobId(7), 1}));
}

TEST_F(DeviceBoardTest, UnknownDevicesAreIgnored) {
  EXPECT_FALSE(board.Has("meta"));
  EXPECT_TRUE(board.TakeHeartbeat("meta", {}, now).empty());
  board.SetLost("meta", absl::UnavailableError("gone"));
}

}  // namespace
}  // namespace gpupool::server
