// Hold, release, requeue, prerequisites, and why a job waits.
#include "server/control/jobs/job_requests.h"

#include <gmock/gmock.h>

#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using worker::v1::JobEnded;

class JobRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
    planned_bytes = 900;  // one job fills the device
  }

  absl::StatusOr<v1::Job> Hold(uint64_t id) {
    Answer<v1::Job> answer;
    HoldJob(control(), id, answer.callback());
    return answer.Wait();
  }
  absl::StatusOr<v1::Job> Release(uint64_t id) {
    Answer<v1::Job> answer;
    ReleaseJob(control(), id, answer.callback());
    return answer.Wait();
  }
  absl::StatusOr<v1::JobExplanation> Explain(uint64_t id) {
    Answer<v1::JobExplanation> answer;
    ExplainJob(control(), id, answer.callback());
    return answer.Wait();
  }
};

TEST_F(JobRequestsTest, AHeldJobIsHeldAfterARestart) {
  auto request = Request("r1");
  request.mutable_spec()->set_hold(true);
  ASSERT_TRUE(Submit(request).ok());
  Restart();
  Hello("cpu:0");
  EXPECT_TRUE(GetJob(control(), 1)->held());
  EXPECT_THAT(GetJob(control(), 1)->waiting_reason(),
              HasSubstr("gpupool release"));
  const auto released = Release(1);
  ASSERT_TRUE(released.ok()) << released.status();
  EXPECT_FALSE(released->held());
  EXPECT_TRUE(Becomes(1, v1::STARTING));
}

TEST_F(JobRequestsTest, HoldingARunningJobTellsItsWorkerToCheckpoint) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ASSERT_TRUE(Hold(1).ok());
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.stop_job().reason(), worker::v1::StopJob::DRAIN);
  ReportCheckpoint(1, 1, 7);
  ReportEnded(1, 1, JobEnded::STOPPED);
  ASSERT_TRUE(Becomes(1, v1::QUEUED));
  EXPECT_TRUE(GetJob(control(), 1)->held());
}

TEST_F(JobRequestsTest, EndedJobsAreRefusedByTheirState) {
  FinishedJob("r1", false);
  const auto held = Hold(1);
  EXPECT_EQ(held.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.status().message()), HasSubstr("SUCCEEDED"));
  EXPECT_TRUE(absl::IsNotFound(Hold(99).status()));
  EXPECT_EQ(Explain(1)->state(), v1::SUCCEEDED);
  EXPECT_TRUE(absl::IsNotFound(Explain(99).status()));
}

TEST_F(JobRequestsTest, PrerequisitesOutliveARestart) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  auto request = Request("r2");
  request.mutable_spec()->add_after_ok(1);
  ASSERT_TRUE(Submit(request).ok());
  Restart();
  Hello("cpu:0", {{1, 1}});
  EXPECT_EQ(GetJob(control(), 2)->waiting_reason(),
            "waits for job 1 to succeed");
  ReportEnded(1, 1, JobEnded::FAILED);
  ASSERT_TRUE(Becomes(2, v1::FAILED));
  EXPECT_EQ(GetJob(control(), 2)->error().message(),
            "job 1, after which it was to run, failed");
}

TEST_F(JobRequestsTest, PrerequisitesThatCannotBeAreRefused) {
  FinishedJob("r1", false);
  auto request = Request("r2");
  request.mutable_spec()->add_after_ok(1);
  EXPECT_TRUE(Submit(request).ok()) << "it has succeeded already";
  request = Request("r3");
  request.mutable_spec()->add_after_any(99);
  EXPECT_TRUE(absl::IsNotFound(Submit(request).status()));
  request = Request("r4");
  request.mutable_spec()->mutable_deadline()->set_seconds(1);
  const auto late = Submit(request);
  EXPECT_TRUE(absl::IsInvalidArgument(late.status()));
  EXPECT_THAT(std::string(late.status().message()),
              HasSubstr("deadline is 1970-01-01T00:00:01+00:00"));
}

TEST_F(JobRequestsTest, ExplainsWhatIsInTheWay) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ASSERT_TRUE(Submit(Request("r2")).ok());
  ASSERT_TRUE(Submit(Request("r3")).ok());
  const auto why = Explain(3);
  ASSERT_TRUE(why.ok()) << why.status();
  EXPECT_EQ(why->position(), 2u);
  EXPECT_THAT(why->ahead(), ElementsAre(2u));
  ASSERT_EQ(why->running_size(), 1);
  EXPECT_FALSE(why->running(0).gives_way());
  ASSERT_GT(why->devices_size(), 0);
  EXPECT_EQ(why->devices(0).missing_bytes(), 800u);
  EXPECT_THAT(why->devices(0).obstacle(), HasSubstr("lacks 800 B"));
}

TEST_F(JobRequestsTest, ALostDeviceSaysWhy) {
  ASSERT_TRUE(Submit(Request("r1")).ok());
  loop->OnWorkerLost("cpu:0", absl::DataLossError("memory errors"), {});
  ASSERT_TRUE(Eventually([&] {
    const auto why = Explain(1);
    return why->devices_size() == 1 &&
           why->devices(0).obstacle() == "is in quarantine: memory errors";
  }));
}

TEST_F(JobRequestsTest, RunTimeAndWhatItTaughtOutliveARestart) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ASSERT_TRUE(Becomes(1, v1::RUNNING));
  LetTimePass(absl::Milliseconds(5));
  ReportProgress(1, 1, 5);
  ASSERT_TRUE(
      Eventually([&] { return GetJob(control(), 1)->run_seconds() > 0; }));
  const double ran = GetJob(control(), 1)->run_seconds();
  Restart();
  EXPECT_EQ(GetJob(control(), 1)->run_seconds(), ran);
}

}  // namespace
}  // namespace gpupool::server
