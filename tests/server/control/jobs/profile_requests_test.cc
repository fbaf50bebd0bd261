#include "server/control/jobs/profile_requests.h"

#include <gmock/gmock.h>

#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class ProfileRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
  }
  uint64_t RunningJob() {
    Hello("cpu:0");
    const uint64_t id = SubmitAndStart(Request("r1")).id();
    ReportStarted(id, 1);
    EXPECT_TRUE(Becomes(id, v1::RUNNING));
    return id;
  }
  Answer<worker::v1::ProfileReply> Profile(uint64_t id, uint32_t steps = 5) {
    Answer<worker::v1::ProfileReply> answer;
    ProfileJob(control(), id, steps, answer.callback());
    return answer;
  }
};

TEST_F(ProfileRequestsTest, TheWorkerOfTheJobIsAsked) {
  const uint64_t id = RunningJob();
  auto answer = Profile(id, 7);
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  EXPECT_EQ(send.device, "cpu:0");
  EXPECT_EQ(send.message.profile_job().job_id(), id);
  EXPECT_EQ(send.message.profile_job().attempt(), 1u);
  EXPECT_EQ(send.message.profile_job().steps(), 7u);
  worker::v1::FromWorker reply;
  reply.mutable_profile_job()->set_sha256("abc");
  send.callback(reply);
  EXPECT_EQ(answer.Wait()->sha256(), "abc");
}

TEST_F(ProfileRequestsTest, ErrorsOfTheWorkerComeBack) {
  auto answer = Profile(RunningJob());
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  send.callback(absl::InvalidArgumentError("ask for 3 steps or fewer"));
  EXPECT_EQ(answer.Wait().status().message(), "ask for 3 steps or fewer");
}

TEST_F(ProfileRequestsTest, StepsThatTakeTooLongAreSaidToBeTooMany) {
  auto answer = Profile(RunningJob(), 100);
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  send.callback(absl::DeadlineExceededError("no answer"));
  const absl::Status status = answer.Wait().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("100 steps in 10m; it continues: profile fewer"));
}

TEST_F(ProfileRequestsTest, AnAttemptThatIsNotOnItsWorkerIsToldByTheState) {
  const uint64_t id = RunningJob();
  auto answer = Profile(id);
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  send.callback(absl::NotFoundError("job 1 does not run on this device now"));
  const absl::Status status = answer.Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("job 1 is RUNNING, and its attempt is just"));
}

TEST_F(ProfileRequestsTest, OnlyJobsThatRunAreProfiled) {
  EXPECT_TRUE(absl::IsNotFound(Profile(99).Wait().status()));
  const auto waits = Submit(Request("r1"));  // no worker is there
  ASSERT_TRUE(waits.ok()) << waits.status();
  const absl::Status status = Profile(waits->id()).Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("gpupool why"));
}

TEST_F(ProfileRequestsTest, AJobThatHasEndedIsRefusedByItsState) {
  Hello("cpu:0");
  const absl::Status status =
      Profile(FinishedJob("r1", false).id()).Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("SUCCEEDED"));
}

class ProfileOnTwoDevicesTest : public ProfileRequestsTest {
 protected:
  void SetUp() override {
    ProfileRequestsTest::SetUp();
    options.devices = {{"cpu:0", kLimit, 1}, {"cpu:1", kLimit, 1}};
    Restart();
  }
};

TEST_F(ProfileOnTwoDevicesTest, AJobOnSeveralDevicesIsRefused) {
  Hello("cpu:0");
  Hello("cpu:1");
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->set_devices(2);
  const auto job = Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(Becomes(job->id(), v1::STARTING));
  const absl::Status status = Profile(job->id()).Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 devices"));
}

TEST_F(ProfileRequestsTest, RecordedProfilesAreFoundByTheirCycle) {
  EXPECT_TRUE(absl::IsNotFound(FindRecordedProfile(control(), 99, 1).status()));
  const uint64_t id = RunningJob();
  const absl::Status none = FindRecordedProfile(control(), id, 1).status();
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("no training.profile"));
  for (const uint32_t cycle : {2, 3}) {
    worker::v1::Report report;
    report.set_job_id(id);
    report.set_attempt(1);
    report.mutable_profile()->set_cycle(cycle);
    report.mutable_profile()->set_steps(5);
    Report("cpu:0", report);
  }
  ReportEnded(id, 1, worker::v1::JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(id, v1::SUCCEEDED));
  const auto found = FindRecordedProfile(control(), id, 3);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->steps(), 5u);
  const absl::Status other = FindRecordedProfile(control(), id, 1).status();
  EXPECT_TRUE(absl::IsNotFound(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("it has 2, 3"));
}

}  // namespace
}  // namespace gpupool::server
