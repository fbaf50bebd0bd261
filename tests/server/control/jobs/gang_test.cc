// Jobs on several devices, from the submission to the end.
#include <gmock/gmock.h>

#include <filesystem>

#include "gpupool/v1/admin.pb.h"
#include "server/control/devices/device_board.h"
#include "server/control/devices/device_requests.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using worker::v1::JobEnded;

class GangTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    loop.reset();
    store.reset();
    options.devices = {{"cpu:0", kLimit, 1}, {"cpu:1", kLimit, 1}};
    StartLoop();
    AddDataset("digits");
    Hello("cpu:0");
    Hello("cpu:1");
  }
  v1::SubmitJobRequest Gang(const std::string& request_id) {
    v1::SubmitJobRequest request = Request(request_id);
    request.mutable_spec()->set_devices(2);
    return request;
  }
  // Takes the two StartJobs that must have been sent.
  void TakeStarts(uint32_t attempt) {
    for (uint32_t rank : {0, 1}) {
      FakeWorkers::Pending post;
      ASSERT_TRUE(workers->NextPost(post));
      EXPECT_EQ(post.device, rank == 0 ? "cpu:0" : "cpu:1");
      const worker::v1::StartJob& start = post.message.start_job();
      EXPECT_EQ(start.attempt(), attempt);
      EXPECT_EQ(start.limit_bytes(), 100u);
      EXPECT_EQ(start.group().rank(), rank);
      EXPECT_EQ(start.group().size(), 2u);
      EXPECT_EQ(start.group().name(), "1-" + std::to_string(attempt));
      EXPECT_EQ(start.group().folder(), Folder(attempt));
      EXPECT_TRUE(fs::is_directory(Folder(attempt)));
    }
  }
  void ExpectStop(const std::string& device,
                  worker::v1::StopJob::Reason reason) {
    FakeWorkers::Pending post;
    ASSERT_TRUE(workers->NextPost(post));
    EXPECT_EQ(post.device, device);
    EXPECT_EQ(post.message.stop_job().reason(), reason);
  }
  std::string Folder(uint32_t attempt) {
    return folder / "groups" / ("1-" + std::to_string(attempt));
  }
  void EndRank(const std::string& device, uint32_t attempt,
               JobEnded::Outcome outcome, const std::string& message = "") {
    v1::JobError error;
    error.set_message(message);
    ReportEnded(1, attempt, outcome, {.error = error, .device = device});
  }
  void Run() {
    ASSERT_TRUE(Submit(Gang("r1")).ok());
    TakeStarts(1);
    ReportStarted(1, 1);
    ASSERT_TRUE(Becomes(1, v1::RUNNING));
  }
};

TEST_F(GangTest, IsStartedOnAllItsDevicesAndSucceedsWithItsLastRank) {
  Run();
  EXPECT_EQ(GetJob(control(), 1)->device(), "cpu:0");
  EXPECT_THAT(GetJob(control(), 1)->devices(), ElementsAre("cpu:0", "cpu:1"));
  for (const v1::Device& device : ListDevices(control())) {
    EXPECT_THAT(device.job_ids(), ElementsAre(1));
    EXPECT_EQ(device.committed_bytes(), 100u);
  }
  EndRank("cpu:1", 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:1", sequence));
  EXPECT_EQ(GetJob(control(), 1)->state(), v1::RUNNING);
  ReportCheckpoint(1, 1, 20);
  EndRank("cpu:0", 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(1, v1::SUCCEEDED));
  EXPECT_THAT(GetJob(control(), 1)->devices(), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_TRUE(Eventually([&] { return !fs::exists(Folder(1)); }));
}

TEST_F(GangTest, TellsTheFailureOfTheRankThatFailedAndNotWhatOthersSaw) {
  Run();
  EndRank("cpu:0", 1, JobEnded::INTERRUPTED, "rank 1 is lost");
  ExpectStop("cpu:1", worker::v1::StopJob::CANCELLED);
  EndRank("cpu:1", 1, JobEnded::FAILED, "the loss is NaN at step 7");
  ASSERT_TRUE(Becomes(1, v1::FAILED));
  EXPECT_EQ(GetJob(control(), 1)->error().message(),
            "the loss is NaN at step 7");
}

TEST_F(GangTest, GivesUpWithTheFirstReasonNotTheLastWord) {
  v1::SubmitJobRequest request = Gang("r1");
  request.mutable_spec()->mutable_retry()->set_max_attempts(1);
  ASSERT_TRUE(Submit(request).ok());
  TakeStarts(1);
  loop->OnWorkerLost("cpu:1", absl::UnavailableError("signal 9"), {});
  ExpectStop("cpu:0", worker::v1::StopJob::CANCELLED);
  EndRank("cpu:0", 1, JobEnded::INTERRUPTED, "rank 1 is lost");
  ASSERT_TRUE(Becomes(1, v1::FAILED));
  EXPECT_THAT(GetJob(control(), 1)->error().message(),
              HasSubstr("lost the worker of cpu:1: signal 9"));
}

TEST_F(GangTest, ALostRankMakesAllResumeFromTheCheckpoint) {
  Run();
  ReportCheckpoint(1, 1, 10);
  loop->OnWorkerLost("cpu:1", absl::UnavailableError("signal 9"), {});
  ExpectStop("cpu:0", worker::v1::StopJob::CANCELLED);
  EndRank("cpu:0", 1, JobEnded::STOPPED);
  ASSERT_TRUE(Becomes(1, v1::BACKING_OFF) || Becomes(1, v1::QUEUED));
  Hello("cpu:1");
  TakeStarts(2);
  EXPECT_TRUE(Eventually([&] { return !fs::exists(Folder(1)); }));
}

TEST_F(GangTest, ACancelFreesAllDevices) {
  Run();
  Answer<v1::Job> answer;
  CancelJob(control(), 1, answer.callback());
  EXPECT_EQ(answer.Wait()->state(), v1::CANCELLING);
  ExpectStop("cpu:0", worker::v1::StopJob::CANCELLED);
  ExpectStop("cpu:1", worker::v1::StopJob::CANCELLED);
  EndRank("cpu:0", 1, JobEnded::STOPPED);
  EndRank("cpu:1", 1, JobEnded::INTERRUPTED, "rank 0 is lost");
  ASSERT_TRUE(Becomes(1, v1::CANCELLED));
  for (const v1::Device& device : ListDevices(control())) {
    EXPECT_EQ(device.committed_bytes(), 0u);
  }
}

TEST_F(GangTest, AnAttemptThatAllItsWorkersStillRunIsAdopted) {
  Run();
  Restart();
  Hello("cpu:0", {{1, 1}});
  Hello("cpu:1", {{1, 1}});
  EndRank("cpu:0", 1, JobEnded::SUCCEEDED);
  EndRank("cpu:1", 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(1, v1::SUCCEEDED));
  EXPECT_EQ(GetJob(control(), 1)->attempt(), 1u);
  EXPECT_EQ(workers->posts(), 0u) << "nothing was started or stopped";
}

TEST_F(GangTest, AnAttemptThatOneWorkerLostIsStoppedOnTheOthers) {
  Run();
  Restart();
  EXPECT_TRUE(fs::exists(Folder(1)));
  loop->OnWorkerLost("cpu:1", absl::UnavailableError("gone"), {});
  ExpectStop("cpu:0", worker::v1::StopJob::CANCELLED);
  Hello("cpu:0", {{1, 1}});  // it cannot have heard that
  ExpectStop("cpu:0", worker::v1::StopJob::CANCELLED);
  EndRank("cpu:0", 1, JobEnded::STOPPED);
  Hello("cpu:1");
  TakeStarts(2);
}

TEST_F(GangTest, ARankThatEndedBeforeTheRestartIsNotMissed) {
  Run();
  EndRank("cpu:1", 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:1", sequence));
  Restart();
  Hello("cpu:1");
  Hello("cpu:0", {{1, 1}});
  EndRank("cpu:0", 1, JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(1, v1::SUCCEEDED));
  EXPECT_EQ(GetJob(control(), 1)->attempt(), 1u);
}

TEST_F(GangTest, SaysHowManyDevicesItWaitsFor) {
  ASSERT_TRUE(Submit(Gang("r1")).ok());
  TakeStarts(1);
  planned_bytes = 950;
  v1::SubmitJobRequest other = Gang("r2");
  other.mutable_spec()->mutable_training()->set_batch_size(7);
  const auto waiting = Submit(other);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_EQ(waiting->waiting_reason(),
            "waits for 2 devices of one kind with 950 B each; none is free; it "
            "is next");
}

TEST_F(GangTest, ReconcileListsEveryRank) {
  Run();
  const auto state = control().board->Reconcile();
  ASSERT_EQ(state.attempts_size(), 2);
  EXPECT_EQ(state.attempts(0).device(), "cpu:0");
  EXPECT_EQ(state.attempts(1).device(), "cpu:1");
  EXPECT_EQ(state.attempts(1).job_id(), 1u);
}

}  // namespace
}  // namespace gpupool::server
