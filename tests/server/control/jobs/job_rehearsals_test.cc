#include "server/control/jobs/job_rehearsals.h"

#include <gmock/gmock.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/job.pb.h"
#include "server/control/jobs/admission.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JobRehearsalsTest : public ControlTest {
 protected:
  void SetUp() override {
    rehearsal = [this](const worker::v1::ToWorker& message)
        -> absl::StatusOr<worker::v1::FromWorker> {
      EXPECT_TRUE(message.plan_training().make_step());
      ++asked_;
      if (answers_) return worker::v1::FromWorker();
      return absl::UnavailableError("ended during the request");
    };
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }
  void LoseWorker(const std::string& reason) {
    loop->OnWorkerLost(kRehearsalDevice, absl::UnavailableError(reason),
                       {.job_id = 1});
  }
  bool IsAsked(int times) {
    return Eventually([&] { return asked_ >= times; });
  }
  v1::SubmitJobRequest Other(const std::string& request_id) {
    v1::SubmitJobRequest request = Request(request_id);
    request.mutable_spec()->mutable_training()->set_batch_size(17);
    return request;
  }

  std::atomic<int> asked_{0};
  std::atomic<bool> answers_{false};  // else the rehearsal goes on
};

TEST_F(JobRehearsalsTest, AJobWaitsForItsRehearsalButItsSubmissionDoesNot) {
  const auto job = Submit(Request("r1"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::QUEUED);
  EXPECT_THAT(job->waiting_reason(), HasSubstr("is tried alone"));
  ASSERT_TRUE(IsAsked(1));
  EXPECT_EQ(workers->posts(), 0u);
  answers_ = true;
  loop->OnWorkerReady(kRehearsalDevice, {});
  FakeWorkers::Pending start;
  ASSERT_TRUE(workers->NextPost(start));
  EXPECT_EQ(start.message.start_job().job_id(), job->id());
}

TEST_F(JobRehearsalsTest, AJobThatEndsItsRehearsalFailsBeforeItGetsADevice) {
  const auto bad = Submit(Request("r1"));
  ASSERT_TRUE(IsAsked(1));
  // Somebody else may have killed it once.
  LoseWorker("killed by signal 9");
  loop->OnWorkerReady(kRehearsalDevice, {});
  ASSERT_TRUE(IsAsked(2));
  EXPECT_EQ(store->GetJob(bad->id())->state(), v1::QUEUED);
  LoseWorker("killed by signal 9");
  ASSERT_TRUE(Becomes(bad->id(), v1::FAILED));
  const auto job = store->GetJob(bad->id());
  EXPECT_THAT(job->error().message(),
              AllOf(HasSubstr("before it got a device"),
                    HasSubstr("one step of it was made alone"),
                    HasSubstr("killed by signal 9")));
  EXPECT_EQ(job->attempt(), 0u);
  EXPECT_EQ(workers->posts(), 0u);
}

TEST_F(JobRehearsalsTest, JobsOfOnePlanShareARehearsal) {
  const auto first = Submit(Request("r1"));
  const auto second = Submit(Request("r2"));
  const auto other = Submit(Other("r3"));
  ASSERT_TRUE(IsAsked(1));
  LoseWorker("signal 6");
  ASSERT_TRUE(Becomes(first->id(), v1::FAILED));
  ASSERT_TRUE(Becomes(second->id(), v1::FAILED));
  ASSERT_TRUE(IsAsked(2));
  EXPECT_EQ(store->GetJob(other->id())->state(), v1::QUEUED);
}

TEST_F(JobRehearsalsTest, AJobLikeAnEarlierOneStartsWithoutARehearsal) {
  answers_ = true;
  SubmitAndStart(Request("r1"));
  v1::SubmitJobRequest like = Request("r2");
  like.mutable_spec()->set_name("another");
  like.mutable_spec()->mutable_training()->set_steps(12345);
  like.mutable_spec()->mutable_training()->set_report_every_steps(7);
  SubmitAndStart(like);
  EXPECT_EQ(asked_, 1);
  // Also after a restart, but not with another build.
  Restart();
  Hello("cpu:0");
  ASSERT_TRUE(Submit(Request("r3")).ok());
  EXPECT_EQ(asked_, 1);
  options.planner = 7;
  Restart();
  Hello("cpu:0");
  ASSERT_TRUE(Submit(Request("r4")).ok());
  EXPECT_TRUE(IsAsked(2));
}

TEST_F(JobRehearsalsTest, OnlySomeKindsOfJobsAreRemembered) {
  answers_ = true;
  for (uint32_t batch_size = 1; batch_size <= 3; ++batch_size) {
    v1::SubmitJobRequest request = Request(absl::StrCat("r", batch_size));
    request.mutable_spec()->mutable_training()->set_batch_size(batch_size);
    SubmitAndStart(request);
  }
  EXPECT_EQ(store->LoadCounters("rehearsed/")->size(), 2u);
}

TEST_F(JobRehearsalsTest, JobsOfOtherValidationSetsAreOtherKinds) {
  const v1::JobSpec spec = Request("r1").spec();
  EXPECT_EQ(JobRehearsals::KeyOf(spec, 3), JobRehearsals::KeyOf(spec, 3, 0));
  EXPECT_NE(JobRehearsals::KeyOf(spec, 3, 4), JobRehearsals::KeyOf(spec, 3, 5));
}

TEST_F(JobRehearsalsTest, AWaitingJobIsRehearsedAfterARestart) {
  const auto job = Submit(Request("r1"));
  ASSERT_TRUE(IsAsked(1));
  asked_ = 0;
  Restart();
  loop->OnWorkerReady(kRehearsalDevice, {});
  Hello("cpu:0");
  ASSERT_TRUE(IsAsked(1));
  EXPECT_EQ(workers->posts(), 0u);
  LoseWorker("signal 6");
  EXPECT_TRUE(Becomes(job->id(), v1::FAILED));
}

TEST_F(JobRehearsalsTest, AJobThatCannotBeTriedStarts) {
  const auto job = Submit(Request("r1"));
  ASSERT_TRUE(IsAsked(1));
  for (int i = 0; i < 3; ++i) {
    loop->OnWorkerLost(kRehearsalDevice, absl::UnavailableError("signal 9"),
                       {});
  }
  FakeWorkers::Pending start;
  ASSERT_TRUE(workers->NextPost(start));
  EXPECT_EQ(start.message.start_job().job_id(), job->id());
}

}  // namespace
}  // namespace gpupool::server
