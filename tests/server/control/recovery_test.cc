// A new daemon reads the store and adopts its workers.
#include "server/control/recovery.h"

#include <gmock/gmock.h>

#include "server/control/devices/device_board.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using worker::v1::JobEnded;

class RecoveryTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }
};

TEST_F(RecoveryTest, EveryAcknowledgedJobIsThereAfterARestart) {
  planned_bytes = 600;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Submit(Request("r" + std::to_string(i))).ok());
  }
  Restart();
  EXPECT_EQ(ListJobs(control(), {})->jobs_size(), 20);
  EXPECT_EQ(Submit(Request("r3"))->id(), 4u) << "requests are remembered";
  EXPECT_EQ(Submit(Request("new"))->id(), 21u) << "ids are not reused";
}

TEST_F(RecoveryTest, ARunningAttemptIsAdoptedNotRestarted) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ReportProgress(1, 1, 5);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  Restart();
  EXPECT_EQ(loop->LastReportSequence("cpu:0"), sequence);
  EXPECT_EQ(GetJob(control(), 1)->state(), v1::RUNNING);
  EXPECT_THAT(metrics->Text(), ::testing::HasSubstr("gpupool_job_step{"));
  Hello("cpu:0", {{1, 1}});
  ReportProgress(1, 1, 6);
  ReportEnded(1, 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(1, v1::SUCCEEDED));
  EXPECT_EQ(GetJob(control(), 1)->attempt(), 1u);
  EXPECT_EQ(workers->posts(), 0u) << "nothing was started or stopped";
  const auto events = *ReadEvents(control(), 1, {0, 100});
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), i + 1);
  }
}

TEST_F(RecoveryTest, AnEndSpooledWhileNobodyListenedIsTheEnd) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  Restart();
  Hello("cpu:0");
  ReportCheckpoint(1, 1, 20);
  ReportEnded(1, 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(1, v1::SUCCEEDED));
  EXPECT_EQ(GetJob(control(), 1)->last_checkpoint().step(), 20u);
}

TEST_F(RecoveryTest, AnAttemptThatSavesIsWaitedForAndHoldsNoDevice) {
  planned_bytes = 900;
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ReportEnded(1, 1, JobEnded::SAVING);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  EXPECT_FALSE(control().board->WaitUntilIdle(absl::ZeroDuration()));
  Restart();
  worker::v1::HelloReply hello;
  hello.add_running()->set_job_id(1);
  hello.mutable_running(0)->set_attempt(1);
  hello.mutable_running(0)->set_left(true);
  loop->OnWorkerReady("cpu:0", hello);
  SubmitAndStart(Request("r2"));  // takes all of the device
  EXPECT_EQ(GetJob(control(), 1)->state(), v1::RUNNING);
  EXPECT_EQ(GetJob(control(), 1)->waiting_reason(),
            "its checkpoint is being written to disk; it holds no device any "
            "more");
  ReportCheckpoint(1, 1, 20);
  ReportEnded(1, 1, JobEnded::STOPPED);
  ASSERT_TRUE(Becomes(1, v1::BACKING_OFF));
  EXPECT_EQ(GetJob(control(), 1)->last_checkpoint().step(), 20u);
}

TEST_F(RecoveryTest, ReportsTakenBeforeTheRestartAreNotTakenAgain) {
  SubmitAndStart(Request("r1"));
  ReportProgress(1, 1, 5);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  Restart();
  Hello("cpu:0", {{1, 1}});
  const size_t before = ReadEvents(control(), 1, {0, 100})->size();
  --sequence;
  ReportProgress(1, 1, 5);  // the same report, sent again
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  EXPECT_EQ(ReadEvents(control(), 1, {0, 100})->size(), before);
}

TEST_F(RecoveryTest, AnAttemptThatDiedMeanwhileIsStartedAgain) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ReportCheckpoint(1, 1, 10);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  Restart();
  loop->OnWorkerLost("cpu:0", absl::UnavailableError("gone"), {});
  Hello("cpu:0");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.start_job().attempt(), 2u);
  EXPECT_FALSE(post.message.start_job().resume_manifest_sha256().empty());
}

TEST_F(RecoveryTest, FailuresAreCountedAcrossRestarts) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_retry()->set_max_attempts(2);
  SubmitAndStart(request);
  ReportEnded(1, 1, JobEnded::INTERRUPTED);
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  Restart();
  loop->OnWorkerLost("cpu:0", absl::UnavailableError("gone"), {});
  EXPECT_TRUE(Becomes(1, v1::FAILED));
}

TEST_F(RecoveryTest, FaultsOfDevicesUnderAJobAreRememberedAcrossRestarts) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_retry()->set_max_attempts(1);
  SubmitAndStart(request);
  loop->OnWorkerLost("cpu:0", absl::AbortedError("illegal address"), {});
  ASSERT_TRUE(Becomes(1, v1::BACKING_OFF));
  Restart();
  EXPECT_THAT(GetJob(control(), 1)->faulted_devices(), ElementsAre("cpu:0"));
  // The job continues, and the device no longer cools down.
  Hello("cpu:0");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.start_job().attempt(), 2u);
  loop->OnWorkerLost("cpu:0", absl::AbortedError("illegal address"), {});
  ASSERT_TRUE(Becomes(1, v1::BACKING_OFF));
  EXPECT_THAT(GetJob(control(), 1)->faulted_devices(),
              ElementsAre("cpu:0", "cpu:0"));
}

TEST_F(RecoveryTest, AnAttemptThatNobodyKnowsIsStopped) {
  Restart();
  Hello("cpu:0", {{42, 3}});
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.stop_job().job_id(), 42u);
}

TEST_F(RecoveryTest, AServedVersionIsServedAgainWithoutLoading) {
  FinishedJob("r1", true);
  const uint64_t id = AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  Restart();
  EXPECT_TRUE(sink->served().empty());
  Hello("cpu:0", {}, {id});
  EXPECT_TRUE(Eventually([&] { return sink->served().contains(id); }));
  EXPECT_EQ(sink->served()[id], "cpu:0");
  EXPECT_EQ(workers->sends(), 0u);
}

TEST_F(RecoveryTest, AnExclusiveJobAndAWantedDeviceSurviveARestart) {
  options.devices = {{"cpu:0", kLimit, 1}, {"cpu:1", kLimit, 1}};
  Restart();
  Hello("cpu:0");
  Hello("cpu:1");
  v1::SubmitJobRequest alone = Request("r1");
  alone.mutable_spec()->set_device("cpu:1");
  alone.mutable_spec()->set_exclusive(true);
  ASSERT_TRUE(Submit(alone).ok());
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  ASSERT_EQ(post.device, "cpu:1");
  v1::SubmitJobRequest pinned = Request("r2");
  pinned.mutable_spec()->set_device("cpu:1");
  ASSERT_TRUE(Submit(pinned).ok());
  Restart();
  Hello("cpu:0");
  Hello("cpu:1", {{1, 1}});
  const auto why = [&] { return GetJob(control(), 2)->waiting_reason(); };
  EXPECT_TRUE(Eventually([&] {
    return why() ==
           "waits for cpu:1: it needs 100 B there, 0 B are free; job 1 has "
           "cpu:1 to itself; it is next";
  })) << why();
  EXPECT_EQ(GetJob(control(), 1)->spec().device(), "cpu:1");
}

TEST_F(RecoveryTest, AJobOnADeviceThatWasTakenAwayWaitsForAnother) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  options.devices = {{"cpu:1", kLimit, 1}};
  Restart();
  Hello("cpu:1");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.device, "cpu:1");
  EXPECT_EQ(post.message.start_job().attempt(), 2u);
}

}  // namespace
}  // namespace gpupool::server
