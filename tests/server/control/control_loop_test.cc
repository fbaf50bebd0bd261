// Jobs from submission to their end, as clients and workers see them.
#include "server/control/control_loop.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "gpupool/v1/admin.pb.h"
#include "server/control/devices/admin_requests.h"
#include "server/control/devices/device_board.h"
#include "server/control/devices/device_requests.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/event_streams.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using worker::v1::JobEnded;

class ControlLoopTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }
};

TEST_F(ControlLoopTest, AJobRunsFromSubmissionToItsEnd) {
  const v1::Job job = SubmitAndStart(Request("r1"));
  EXPECT_EQ(job.id(), 1u);
  ReportStarted(1, 1);
  ReportProgress(1, 1, 7);
  ReportCheckpoint(1, 1, 20);
  ReportEnded(1, 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(1, v1::SUCCEEDED));
  const v1::Job ended = *GetJob(control(), 1);
  EXPECT_EQ(ended.progress().step(), 7u);
  EXPECT_EQ(ended.last_checkpoint().step(), 20u);
  EXPECT_EQ(ended.device(), "cpu:0");
  EXPECT_TRUE(ended.has_end_time());
  EXPECT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
}

TEST_F(ControlLoopTest, AQueueWithoutRoomIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      ControlLoop::Create({.queue_limit = 0}, {}).status()));
}

TEST_F(ControlLoopTest, EventsRiseWithoutGapsAndTellTheWholeStory) {
  FinishedJob("r1", false);
  const auto events = *ReadEvents(control(), 1, {0, 100});
  std::vector<int> states;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), i + 1);
    EXPECT_TRUE(events[i].has_time());
    if (events[i].has_state_change()) {
      states.push_back(events[i].state_change().to());
    }
  }
  EXPECT_EQ(states, (std::vector<int>{v1::QUEUED, v1::STARTING, v1::RUNNING,
                                      v1::SUCCEEDED}));
  EXPECT_EQ(ReadEvents(control(), 1, {2, 100})->size(), events.size() - 2);
  EXPECT_TRUE(absl::IsNotFound(ReadEvents(control(), 99, {0, 1}).status()));
}

TEST_F(ControlLoopTest, SubscribersAreWokenUntilTheyLeave) {
  const v1::Job job = SubmitAndStart(Request("r1"));
  std::atomic<int> wakes = 0;
  const uint64_t id = control().streams->Subscribe(job.id(), [&] { ++wakes; });
  ReportProgress(1, 1, 1);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  while (wakes == 0) std::this_thread::yield();
  control().streams->Unsubscribe(id);
  const int before = wakes;
  ReportProgress(1, 1, 2);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  EXPECT_EQ(wakes, before);
}

TEST_F(ControlLoopTest, TheWorkersErrorIsTheJobsError) {
  SubmitAndStart(Request("r1"));
  v1::JobError error;
  error.set_message("the loss is NaN at step 12");
  error.set_hint("lower the learning rate");
  error.set_step(12);
  ReportCheckpoint(1, 1, 10);
  ReportEnded(1, 1, JobEnded::FAILED, {.error = error});
  ASSERT_TRUE(Becomes(1, v1::FAILED));
  const v1::Job job = *GetJob(control(), 1);
  EXPECT_EQ(job.error().hint(), "lower the learning rate");
  EXPECT_EQ(job.error().step(), 12u);
  EXPECT_EQ(job.last_checkpoint().step(), 10u) << "the good one is kept";
}

TEST_F(ControlLoopTest, ALostWorkersJobResumesFromItsLastCheckpoint) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ReportCheckpoint(1, 1, 10);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  loop->OnWorkerLost("cpu:0", absl::UnavailableError("signal 9"), {});
  ASSERT_TRUE(Becomes(1, v1::BACKING_OFF));
  EXPECT_EQ(ListDevices(control())[0].state(), v1::DEVICE_LOST);
  Hello("cpu:0");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.start_job().attempt(), 2u);
  EXPECT_EQ(post.message.start_job().resume_manifest_sha256(),
            std::string(64, 'a'));
}

TEST_F(ControlLoopTest, GivesUpWithAnErrorAfterMaxAttempts) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_retry()->set_max_attempts(1);
  SubmitAndStart(request);
  loop->OnWorkerLost("cpu:0", absl::UnavailableError("signal 9"), {});
  ASSERT_TRUE(Becomes(1, v1::FAILED));
  EXPECT_THAT(GetJob(control(), 1)->error().message(),
              HasSubstr("gave up after 1 of 1 attempt"));
}

TEST_F(ControlLoopTest, AFaultOfTheDeviceIsNotAnAttemptOfTheJob) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_retry()->set_max_attempts(1);
  SubmitAndStart(request);
  loop->OnWorkerLost("cpu:0", absl::AbortedError("illegal address"), {});
  ASSERT_TRUE(Becomes(1, v1::BACKING_OFF));
  ASSERT_TRUE(
      Eventually([&] { return ListDevices(control())[0].has_cools_until(); }));
  const v1::Device device = ListDevices(control())[0];
  EXPECT_EQ(device.consecutive_faults(), 1u);
  EXPECT_EQ(device.last_fault(), "illegal address");
}

TEST_F(ControlLoopTest, AWorkersReportOfAFaultCoolsItsDevice) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  worker::v1::Report report;
  report.set_job_id(1);
  report.set_attempt(1);
  report.mutable_ended()->set_outcome(JobEnded::INTERRUPTED);
  report.mutable_ended()->set_device_fault(JobEnded::LOST_CONTEXT);
  report.mutable_ended()->mutable_error()->set_message("illegal address");
  Report("cpu:0", report);
  ASSERT_TRUE(Becomes(1, v1::BACKING_OFF));
  EXPECT_THAT(GetJob(control(), 1)->faulted_devices(), ElementsAre("cpu:0"));
  EXPECT_TRUE(
      Eventually([&] { return ListDevices(control())[0].has_cools_until(); }));
}

TEST_F(ControlLoopTest, ReportsOfAnEarlierAttemptLeaveNoTrace) {
  SubmitAndStart(Request("r1"));
  ReportEnded(1, 1, JobEnded::INTERRUPTED);
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  const size_t before = ReadEvents(control(), 1, {0, 100})->size();
  ReportProgress(1, 1, 99);
  ReportCheckpoint(1, 1, 99);
  ReportEnded(1, 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  EXPECT_EQ(ReadEvents(control(), 1, {0, 100})->size(), before);
  EXPECT_FALSE(GetJob(control(), 1)->has_last_checkpoint());
}

TEST_F(ControlLoopTest, AReportSentTwiceCountsOnce) {
  SubmitAndStart(Request("r1"));
  ReportProgress(1, 1, 5);
  --sequence;
  ReportProgress(1, 1, 5);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  ReportProgress(1, 1, 6);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  int progress = 0;
  const auto events = *ReadEvents(control(), 1, {0, 100});
  for (const auto& event : events) {
    progress += event.has_progress();
  }
  EXPECT_EQ(progress, 2);
}

TEST_F(ControlLoopTest, CancelStopsARunningJobAndAnEndedOneStaysAsItIs) {
  SubmitAndStart(Request("r1"));
  Answer<v1::Job> answer;
  CancelJob(control(), 1, answer.callback());
  EXPECT_EQ(answer.Wait()->state(), v1::CANCELLING);
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.stop_job().reason(), worker::v1::StopJob::CANCELLED);
  ReportEnded(1, 1, JobEnded::STOPPED);
  ASSERT_TRUE(Becomes(1, v1::CANCELLED));
  Answer<v1::Job> again;
  CancelJob(control(), 1, again.callback());
  EXPECT_EQ(again.Wait()->state(), v1::CANCELLED);
  Answer<v1::Job> unknown;
  CancelJob(control(), 99, unknown.callback());
  EXPECT_TRUE(absl::IsNotFound(unknown.Wait().status()));
}

TEST_F(ControlLoopTest, AQueuedJobSaysWhyItWaits) {
  planned_bytes = 800;
  SubmitAndStart(Request("r1"));
  const auto waiting = Submit(Request("r2"));
  EXPECT_EQ(waiting->state(), v1::QUEUED);
  EXPECT_THAT(waiting->waiting_reason(), HasSubstr("waits for 800 B"));
  EXPECT_EQ(GetJob(control(), 2)->waiting_reason(), waiting->waiting_reason());
}

TEST_F(ControlLoopTest, OldCheckpointsArePruned) {
  SubmitAndStart(Request("r1"));
  for (uint64_t step = 1; step <= 9; ++step) ReportCheckpoint(1, 1, step);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  const auto kept = *store->LoadCheckpoints(1);
  ASSERT_EQ(kept.size(), options.keep_checkpoints);
  EXPECT_EQ(kept.front().step(), 5u);
}

TEST_F(ControlLoopTest, ADrainStopsJobsAndRefusesNewOnes) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  Answer<v1::DrainResponse> answer;
  DrainServer(control(), true, answer.callback());
  EXPECT_EQ(answer.Wait()->running_jobs(), 1u);
  EXPECT_TRUE(control().board->draining());
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.stop_job().reason(), worker::v1::StopJob::DRAIN);
  EXPECT_FALSE(control().board->WaitUntilIdle(absl::Milliseconds(1)));
  ReportEnded(1, 1, JobEnded::STOPPED);
  EXPECT_TRUE(control().board->WaitUntilIdle(kPatience));
  EXPECT_TRUE(absl::IsUnavailable(Submit(Request("r2")).status()));
  EXPECT_EQ(GetJob(control(), 1)->state(), v1::QUEUED);
}

TEST_F(ControlLoopTest, AStoppedLoopAnswersUnavailable) {
  loop->Stop();
  EXPECT_TRUE(absl::IsUnavailable(Submit(Request("r1")).status()));
  Answer<v1::Job> cancelled;
  CancelJob(control(), 1, cancelled.callback());
  EXPECT_TRUE(absl::IsUnavailable(cancelled.Wait().status()));
}

TEST_F(ControlLoopTest, ARunningJobHasMetricsUntilItEnds) {
  SubmitAndStart(Request("r1"));
  EXPECT_THAT(metrics->Text(), Not(HasSubstr("job_id")));
  ReportStarted(1, 1);
  ReportProgress(1, 1, 7);
  worker::v1::Report report;
  report.set_job_id(1);
  report.set_attempt(1);
  report.mutable_evaluation()->set_accuracy(0.5);
  Report("cpu:0", report);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  for (const char* series :
       {"gpupool_job_step{job_id=\"1\",tenant=\"default\"} 7\n",
        "gpupool_job_accuracy_ratio{job_id=\"1\",tenant=\"default\"} 0.5\n"}) {
    EXPECT_THAT(metrics->Text(), HasSubstr(series));
  }
  ReportEnded(1, 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  EXPECT_THAT(metrics->Text(), Not(HasSubstr("job_id")));
}

TEST_F(ControlLoopTest, DevicesShowWhatWasPlaced) {
  SubmitAndStart(Request("r1"));
  const v1::Device device = ListDevices(control())[0];
  EXPECT_EQ(device.state(), v1::DEVICE_READY);
  EXPECT_EQ(device.committed_bytes(), 100u);
  EXPECT_EQ(device.job_ids(0), 1u);
}

}  // namespace
}  // namespace gpupool::server
