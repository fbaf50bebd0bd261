// Requests about a device's memory go to its worker, and its answers come back.
#include "server/control/devices/memory_requests.h"

#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "server/control/devices/device_requests.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using worker::v1::FromWorker;
using worker::v1::ToWorker;

class MemoryRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    Hello("cpu:0");
  }
  // Returns the message that the worker got, after it has answered with
  // `reply`.
  ToWorker Serve(absl::StatusOr<FromWorker> reply) {
    FakeWorkers::Pending send;
    EXPECT_TRUE(workers->NextSend(send));
    EXPECT_EQ(send.device, "cpu:0");
    send.callback(std::move(reply));
    return send.message;
  }
  Answer<v1::MemoryStats> Set(double fraction) {
    v1::SetMemoryFractionRequest request;
    request.set_device("cpu:0");
    request.set_fraction(fraction);
    Answer<v1::MemoryStats> answer;
    SetMemoryFraction(control(), request, answer.callback());
    return answer;
  }
  static FromWorker StatsOf(uint64_t bytes) {
    FromWorker reply;
    reply.mutable_memory()->mutable_stats()->set_limit_bytes(bytes);
    return reply;
  }
};

TEST_F(MemoryRequestsTest, AFractionIsKeptAndGivenToEveryLaterWorker) {
  auto taken = Set(0.5);
  EXPECT_EQ(Serve(StatsOf(3)).set_memory_fraction().fraction(), 0.5);
  EXPECT_EQ(taken.Wait()->limit_bytes(), 3u);
  EXPECT_EQ(ListDevices(control())[0].memory_fraction(), 0.5);
  EXPECT_EQ(ListDevices(control())[0].limit_bytes(), kLimit);
  Hello("cpu:0");  // another worker
  EXPECT_EQ(Serve(StatsOf(3)).set_memory_fraction().fraction(), 0.5);
  Restart();
  EXPECT_EQ(ListDevices(control())[0].memory_fraction(), 0.5);
  Hello("cpu:0");
  EXPECT_EQ(Serve(StatsOf(3)).set_memory_fraction().fraction(), 0.5);
}

TEST_F(MemoryRequestsTest, AWorkerThatHasTheFractionIsNotToldAgain) {
  auto taken = Set(0.5);
  Serve(StatsOf(3));
  ASSERT_TRUE(taken.Wait().ok());
  worker::v1::HelloReply reply;
  reply.mutable_info()->set_limit_bytes(kLimit);
  reply.mutable_info()->mutable_memory()->set_limit_bytes(kLimit / 2);
  loop->OnWorkerReady("cpu:0", reply);
  auto stats = Set(0.5);
  Serve(StatsOf(4));
  EXPECT_EQ(stats.Wait()->limit_bytes(), 4u);
  EXPECT_EQ(workers->sends(), 0u);
}

TEST_F(MemoryRequestsTest, AFractionThatTheWorkerRefusesIsTakenBack) {
  auto refused = Set(0.5);
  Serve(absl::FailedPreconditionError("more is held"));
  EXPECT_EQ(refused.Wait().status().message(), "more is held");
  EXPECT_EQ(ListDevices(control())[0].memory_fraction(), 1);
  EXPECT_EQ(*store->LoadMemoryFractions(),
            (std::map<std::string, double>{{"cpu:0", 1}}));
}

TEST_F(MemoryRequestsTest, AFractionIsSetThoughTheWorkerIsAway) {
  auto set = Set(0.25);
  Serve(absl::UnavailableError("the worker restarts"));
  EXPECT_EQ(set.Wait()->limit_bytes(), kLimit / 4);
  EXPECT_EQ(ListDevices(control())[0].memory_fraction(), 0.25);
}

TEST_F(MemoryRequestsTest, AFractionBelowWhatIsPlacedIsRefused) {
  AddDataset("digits");
  planned_bytes = 600;
  SubmitAndStart(Request("r1"));
  auto refused = Set(0.5);
  const absl::Status status = refused.Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("600 B are placed on cpu:0, more than the 500 B"));
  EXPECT_EQ(workers->sends(), 0u);
}

TEST_F(MemoryRequestsTest, AnExclusiveJobIsNamed) {
  AddDataset("digits");
  v1::SubmitJobRequest alone = Request("r1");
  alone.mutable_spec()->set_exclusive(true);
  SubmitAndStart(alone);
  auto refused = Set(0.99);
  const absl::Status status = refused.Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(std::string(status.message()),
            "job 1 has all of cpu:0 to itself (exclusive: true), so that its "
            "fraction of 1 cannot be lowered to 0.99; wait for the job to end, "
            "or cancel it");
}

TEST_F(MemoryRequestsTest, AJobWaitsForALargerFraction) {
  AddDataset("digits");
  planned_bytes = 600;
  auto set = Set(0.5);
  Serve(StatsOf(500));
  ASSERT_TRUE(set.Wait().ok());
  const v1::Job job = *Submit(Request("r1"));
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(GetJob(control(), job.id())->waiting_reason(),
                             "a memory fraction of 0.5");
  }));
  auto raised = Set(1);
  Serve(StatsOf(1000));
  ASSERT_TRUE(raised.Wait().ok());
  EXPECT_TRUE(Becomes(job.id(), v1::STARTING));
}

TEST_F(MemoryRequestsTest, UnknownDevicesAreNotFound) {
  v1::SetMemoryFractionRequest request;
  request.set_device("cpu:9");
  request.set_fraction(0.5);
  Answer<v1::MemoryStats> answer;
  SetMemoryFraction(control(), request, answer.callback());
  EXPECT_THAT(std::string(answer.Wait().status().message()),
              HasSubstr("\"cpu:9\""));
  EXPECT_EQ(workers->sends(), 0u);
}

}  // namespace
}  // namespace gpupool::server
