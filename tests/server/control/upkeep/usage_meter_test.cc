#include "server/control/upkeep/usage_meter.h"

#include <gmock/gmock.h>

#include "gpupool/worker/v1/worker.pb.h"
#include "server/clock.h"
#include "server/control/devices/device_board.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using scheduler::DeviceId;
using scheduler::JobId;

// Runs turns of the control thread at times that the test chooses.
class UsageMeterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Store::Open(directory_ / "gpupool.db");
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    ledger_.state.AddDevice("cuda:0", "cuda", 1000);
    board_.AddDevice("cuda:0", 1000, 1);
    Turn([](Transaction& turn) {
      turn.Apply(scheduler::WorkerReady{.device = DeviceId(0)});
    });
  }

  void Turn(const std::function<void(Transaction&)>& work = nullptr) {
    Transaction turn(&ledger_, store_.get(), now_);
    if (work) work(turn);
    meter_.Charge(turn, board_);
    ASSERT_TRUE(turn.Commit().ok());
    turn.ForgetEnded();
  }
  void Wait(absl::Duration time) {
    now_ += time;
    Turn();
  }
  uint64_t Submit(const std::string& tenant, uint64_t bytes) {
    v1::Job job;
    Turn([&](Transaction& turn) {
      job.set_id(store_->AllocateId(IdKind::kJob));
      job.set_request_id(std::to_string(job.id()));
      job.mutable_spec()->set_name("digits");
      job.mutable_spec()->set_tenant(tenant);
      job.mutable_plan()->mutable_training()->set_peak(bytes);
      job.set_state(v1::QUEUED);
      ++ledger_.job_counts[v1::QUEUED];
      const JobRow& row = ledger_.AddJob(job);
      turn.TouchJob(job.id());
      turn.Apply(ToEvent(row.job));
    });
    return job.id();
  }
  void End(uint64_t id) {
    Turn([&](Transaction& turn) {
      turn.Apply(scheduler::AttemptEnded{
          DeviceId(0), {JobId(id), 1}, scheduler::Outcome::kSucceeded, ""});
    });
  }
  void TellPower(double watts) {
    worker::v1::Heartbeat heartbeat;
    heartbeat.mutable_readings()->set_power_watts(watts);
    board_.TakeHeartbeat("cuda:0", heartbeat, now_);
  }
  std::vector<v1::UsageRow> Rows(v1::UsageGrouping grouping = v1::BY_JOB) {
    v1::GetUsageRequest request;
    request.set_grouping(grouping);
    const auto usage = store_->GetUsage(request, now_);
    EXPECT_TRUE(usage.ok()) << usage.status();
    return {usage->rows().begin(), usage->rows().end()};
  }

  TempDir directory_;
  std::unique_ptr<Store> store_;
  Ledger ledger_;
  DeviceBoard board_;
  UsageMeter meter_;
  absl::Time now_ = absl::FromUnixSeconds(1800000000);  // a whole hour
};

TEST_F(UsageMeterTest, ChargesFromPlacementToEnd) {
  const uint64_t id = Submit("a", 400);
  now_ += absl::Seconds(3);
  End(id);
  Wait(absl::Seconds(60));
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].job_id(), id);
  EXPECT_EQ(rows[0].tenant(), "a");
  EXPECT_EQ(rows[0].model(), "digits");
  EXPECT_EQ(rows[0].device_kind(), "cuda");
  EXPECT_DOUBLE_EQ(rows[0].device_seconds(), 3);
  EXPECT_DOUBLE_EQ(rows[0].byte_seconds(), 1200);
  EXPECT_FALSE(rows[0].has_energy_joules());
}

TEST_F(UsageMeterTest, ALongRunIsOnDiskEveryTenSeconds) {
  Submit("a", 400);
  Wait(absl::Seconds(10));
  Wait(absl::Seconds(4));  // not yet
  ASSERT_EQ(Rows().size(), 1u);
  EXPECT_DOUBLE_EQ(Rows()[0].device_seconds(), 10);
  Wait(absl::Seconds(6));
  EXPECT_DOUBLE_EQ(Rows()[0].device_seconds(), 20);
}

TEST_F(UsageMeterTest, JobsOnOneDeviceShareItsTimeNotTheirBytes) {
  const uint64_t first = Submit("a", 100);
  const uint64_t second = Submit("b", 300);
  now_ += absl::Seconds(8);
  End(first);
  now_ += absl::Seconds(2);
  End(second);
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_DOUBLE_EQ(rows[0].device_seconds(), 4);
  EXPECT_DOUBLE_EQ(rows[1].device_seconds(), 6);
  EXPECT_DOUBLE_EQ(rows[0].byte_seconds(), 800);
  EXPECT_DOUBLE_EQ(rows[1].byte_seconds(), 3000);
}

TEST_F(UsageMeterTest, AnHourEndsAtTheHour) {
  now_ += absl::Minutes(59) + absl::Seconds(55);
  const uint64_t id = Submit("a", 100);
  now_ += absl::Seconds(8);
  End(id);
  v1::GetUsageRequest request;
  request.mutable_since()->set_seconds(1800000000);
  request.mutable_until()->set_seconds(1800000000 + 10);
  const auto usage = store_->GetUsage(request, now_);
  ASSERT_EQ(usage->rows_size(), 1);
  EXPECT_DOUBLE_EQ(usage->rows(0).device_seconds(), 5);
}

TEST_F(UsageMeterTest, EnergyIsWhatTheDeviceTold) {
  const uint64_t id = Submit("a", 100);
  for (int second = 0; second < 5; ++second) {
    TellPower(300);
    now_ += absl::Seconds(1);
  }
  TellPower(300);
  End(id);
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].energy_joules(), 1500);
  EXPECT_DOUBLE_EQ(rows[0].metered_device_seconds(), 5);
}

TEST_F(UsageMeterTest, AClockThatIsSetBackChargesNothing) {
  const uint64_t id = Submit("a", 100);
  now_ -= absl::Minutes(5);
  Turn();
  now_ += absl::Seconds(2);
  End(id);
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].device_seconds(), 2);
}

TEST_F(UsageMeterTest, AClockThatIsSetForwardChargesNothing) {
  absl::Time wall = now_;
  absl::Duration steady;
  const SteadyClock clock([&] { return wall; }, [&] { return steady; });
  const uint64_t id = Submit("a", 100);
  wall += absl::Hours(24 * 400);
  steady += absl::Seconds(2);
  now_ = clock.Now();
  End(id);
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].device_seconds(), 2);
}

TEST_F(UsageMeterTest, AModelThatIsServedAloneHasTheDevice) {
  Turn([&](Transaction& turn) {
    v1::ModelVersion version;
    version.set_model("digits");
    version.mutable_plan()->mutable_inference()->set_peak(50);
    const uint64_t id = turn.CreateVersion(std::move(version));
    turn.Apply(scheduler::VersionLoadRequested{scheduler::VersionId(id)});
  });
  Wait(absl::Seconds(10));
  const auto rows = Rows(v1::BY_MODEL);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].activity(), v1::SERVING);
  EXPECT_EQ(rows[0].model(), "digits");
  EXPECT_DOUBLE_EQ(rows[0].device_seconds(), 10);
  EXPECT_DOUBLE_EQ(rows[0].byte_seconds(), 500);
}

}  // namespace
}  // namespace gpupool::server
