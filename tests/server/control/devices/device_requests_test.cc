#include "server/control/devices/device_requests.h"

#include <gmock/gmock.h>

#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class DeviceRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
  }
  absl::StatusOr<v1::Device> Drain(const std::string& device,
                                   const std::string& reason) {
    v1::DeviceDrain drain;
    drain.set_reason(reason);
    return Set(device, drain);
  }
  absl::StatusOr<v1::Device> Set(const std::string& device,
                                 const std::optional<v1::DeviceDrain>& drain) {
    Answer<v1::Device> answer;
    SetDrain(control(), device, drain, answer.callback());
    return answer.Wait();
  }
};

TEST_F(DeviceRequestsTest, AnUnknownDeviceIsNotFound) {
  const auto device = Drain("cpu:77", "");
  EXPECT_TRUE(absl::IsNotFound(device.status()));
  EXPECT_THAT(std::string(device.status().message()), HasSubstr("cpu:77"));
}

TEST_F(DeviceRequestsTest, ADrainHoldsOverARestartAndEndsWhenItIsResumed) {
  Hello("cpu:0");
  const auto drained = Drain("cpu:0", "new fan");
  ASSERT_TRUE(drained.ok()) << drained.status();
  EXPECT_EQ(drained->state(), v1::DEVICE_DRAINED);
  EXPECT_EQ(drained->drain().reason(), "new fan");
  Restart();
  Hello("cpu:0");
  const auto job = Submit(Request("r1"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::QUEUED);
  EXPECT_THAT(GetJob(control(), job->id())->waiting_reason(),
              HasSubstr("cpu:0 is drained (new fan)"));
  const auto resumed = Set("cpu:0", std::nullopt);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_FALSE(resumed->has_drain());
  EXPECT_EQ(resumed->state(), v1::DEVICE_READY);
  EXPECT_EQ(GetJob(control(), job->id())->state(), v1::STARTING);
}

TEST_F(DeviceRequestsTest, ItIsDrainingWhileAJobIsThere) {
  Hello("cpu:0");
  const auto job = Submit(Request("r1"));
  ASSERT_TRUE(job.ok()) << job.status();
  ReportStarted(job->id(), 1);
  EXPECT_EQ(Drain("cpu:0", "")->state(), v1::DEVICE_DRAINING);
  ReportEnded(job->id(), 1, worker::v1::JobEnded::STOPPED);
  EXPECT_TRUE(Eventually(
      [&] { return ListDevices(control())[0].state() == v1::DEVICE_DRAINED; }));
  EXPECT_EQ(GetJob(control(), job->id())->state(), v1::QUEUED);
}

TEST_F(DeviceRequestsTest, TheWorkerAnswersWhatItIsAsked) {
  worker::v1::ToWorker request;
  request.mutable_empty_cache();
  Answer<worker::v1::FromWorker> answer;
  AskDevice(control(), "cpu:0", request, answer.callback());
  FakeWorkers::Pending sent;
  ASSERT_TRUE(workers->NextSend(sent));
  EXPECT_EQ(sent.device, "cpu:0");
  EXPECT_TRUE(sent.message.has_empty_cache());
  worker::v1::FromWorker reply;
  reply.mutable_empty_cache()->set_freed_bytes(9);
  sent.callback(reply);
  EXPECT_EQ(answer.Wait()->empty_cache().freed_bytes(), 9u);
}

TEST_F(DeviceRequestsTest, NobodyIsAskedOfAnUnknownDevice) {
  Answer<worker::v1::FromWorker> answer;
  AskDevice(control(), "cuda:0", {}, answer.callback());
  const auto reply = answer.Wait();
  EXPECT_TRUE(absl::IsNotFound(reply.status()));
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("\"cuda:0\""));
  EXPECT_EQ(workers->sends(), 0u);
}

}  // namespace
}  // namespace gpupool::server
