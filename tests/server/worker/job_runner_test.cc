#include "server/worker/job_runner.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using testing_engine::DigestOfStep;
using worker::v1::JobEnded;
using worker::v1::Report;
using worker::v1::StartJob;
using worker::v1::StopJob;

// Returns "started", "progress 3", "checkpoint 3", "evaluation 3" or "ended
// SUCCEEDED".
std::string Describe(const Report& report) {
  switch (report.event_case()) {
    case Report::kStarted:
      return absl::StrCat("started ", report.started().from_step());
    case Report::kProgress:
      return absl::StrCat("progress ", report.progress().step());
    case Report::kCheckpoint:
      return absl::StrCat("checkpoint ", report.checkpoint().step());
    case Report::kEvaluation:
      return absl::StrCat("evaluation ", report.evaluation().step());
    case Report::kLog:
      return "log";
    case Report::kProfile:
      return absl::StrCat("profile ", report.profile().cycle());
    case Report::kEnded:
      return "ended " + JobEnded::Outcome_Name(report.ended().outcome());
    default:
      return "?";
  }
}

class JobRunnerTest : public ::testing::Test {
 protected:
  StartJob Request(uint64_t steps) {
    StartJob request;
    request.set_job_id(7);
    request.set_attempt(2);
    request.mutable_spec()->mutable_training()->set_steps(steps);
    return request;
  }
  JobRunner Runner(const StartJob& request,
                   JobRunner::Clock::duration checkpoint_interval = {}) {
    return JobRunner(request, {engine_.get(),
                               [this](Report report) {
                                 EXPECT_EQ(report.job_id(), 7u);
                                 EXPECT_EQ(report.attempt(), 2u);
                                 EXPECT_GT(report.time_unix_nanos(), 0);
                                 absl::MutexLock lock(&mutex_);
                                 reports_.push_back(std::move(report));
                               },
                               &writer_, checkpoint_interval});
  }
  std::vector<std::string> Descriptions() {
    writer_.WaitUntilLeft(0);
    return DescriptionsNow();
  }
  // Describes the reports so far, without waiting for writes.
  std::vector<std::string> DescriptionsNow() {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> result;
    for (const Report& report : reports_) result.push_back(Describe(report));
    return result;
  }
  // Writes end at any time, so their reports are moved to the end.
  std::vector<std::string> WithCheckpointsLast() {
    std::vector<std::string> result = Descriptions();
    std::stable_partition(result.begin(), result.end(), [](const auto& text) {
      return !absl::StartsWith(text, "checkpoint ");
    });
    return result;
  }
  // Whether the disk is faster than the stop is a matter of chance, so reports
  // of saving are left out.
  std::vector<std::string> WithoutSaving() {
    std::vector<std::string> result = Descriptions();
    result.erase(std::remove(result.begin(), result.end(), "ended SAVING"),
                 result.end());
    return result;
  }
  // Runs to the end. Waits for the write behind a step before the next step.
  void RunToEnd(JobRunner* runner) {
    for (int i = 0; runner->Advance(); ++i) {
      ASSERT_LT(i, 10000);
      writer_.WaitUntilLeft(0);
    }
    LetSave(runner);
  }
  // Lets the runner save, like the turnstile.
  void LetSave(JobRunner* runner) {
    if (runner->saves()) writer_.Post([runner] { runner->EndSaved(); });
  }

  std::unique_ptr<testing_engine::FakeEngine> engine_ =
      std::make_unique<testing_engine::FakeEngine>();
  absl::Mutex mutex_;
  std::vector<Report> reports_;  // with `mutex_` while something is written
  SideThread writer_{"checkpoints"};
};

TEST_F(JobRunnerTest, ReportsStartFirstStepLastStepCheckpointAndEnd) {
  JobRunner runner = Runner(Request(3));
  RunToEnd(&runner);
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "progress 3",
                          "checkpoint 3", "ended SUCCEEDED"));
  EXPECT_EQ(reports_.back().ended().memory().measured_peak_bytes(), 1234u);
  EXPECT_EQ(reports_[3].checkpoint().job_id(), 7u);
  EXPECT_FALSE(runner.Advance());
  EXPECT_EQ(reports_.size(), 5u);
}

TEST_F(JobRunnerTest, CheckpointsAtTheIntervalAndOnceAtTheEnd) {
  StartJob request = Request(6);
  request.mutable_spec()->mutable_training()->set_checkpoint_every_steps(2);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(
      Descriptions(),
      ElementsAre("started 0", "progress 1", "checkpoint 2", "checkpoint 4",
                  "progress 6", "checkpoint 6", "ended SUCCEEDED"));
}

TEST_F(JobRunnerTest, CheckpointsByTimeUnlessStepsAreGiven) {
  // Any time is longer than this, so the first step has one. Later ones depend
  // on what it has cost.
  constexpr std::chrono::nanoseconds kInterval{1};
  JobRunner by_time = Runner(Request(1000), kInterval);
  EXPECT_TRUE(by_time.Advance());
  EXPECT_TRUE(by_time.Advance());
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "checkpoint 1"));
  reports_.clear();
  StartJob request = Request(1000);
  request.mutable_spec()->mutable_training()->set_checkpoint_every_steps(3);
  JobRunner by_steps = Runner(request, kInterval);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(by_steps.Advance());
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "checkpoint 3"));
}

TEST_F(JobRunnerTest, EvaluatesHeldOutRowsByEpochsAndAtTheEnd) {
  StartJob request = Request(20);
  request.mutable_spec()->mutable_training()->set_evaluate_every_epochs(1);
  request.mutable_spec()->mutable_data()->mutable_held_out()->set_every(5);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(
      Descriptions(),
      ElementsAre("started 0", "progress 1", "evaluation 10", "progress 20",
                  "evaluation 20", "checkpoint 20", "ended SUCCEEDED"));
}

TEST_F(JobRunnerTest, EvaluatesByStepsBeforeTheCheckpointOfTheStep) {
  StartJob request = Request(9);
  request.mutable_spec()->mutable_training()->set_evaluate_every_steps(4);
  request.mutable_spec()->mutable_training()->set_checkpoint_every_steps(4);
  request.mutable_spec()->mutable_data()->mutable_held_out()->set_every(5);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(
      Descriptions(),
      ElementsAre("started 0", "progress 1", "evaluation 4", "checkpoint 4",
                  "evaluation 8", "checkpoint 8", "progress 9", "evaluation 9",
                  "checkpoint 9", "ended SUCCEEDED"));
}

TEST_F(JobRunnerTest, SavesTheBestOnes) {
  StartJob request = Request(30);
  request.mutable_spec()->mutable_training()->set_evaluate_every_steps(10);
  request.mutable_spec()->mutable_training()->set_keep_best_checkpoints(1);
  request.mutable_spec()->mutable_data()->mutable_held_out()->set_every(5);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(
      Descriptions(),
      ElementsAre("started 0", "progress 1", "evaluation 10", "checkpoint 10",
                  "evaluation 20", "checkpoint 20", "progress 30",
                  "evaluation 30", "checkpoint 30", "ended SUCCEEDED"));
}

TEST_F(JobRunnerTest, StopsEarlyAsASuccess) {
  StartJob request = Request(100);
  request.mutable_spec()->mutable_training()->set_evaluate_every_steps(15);
  request.mutable_spec()->mutable_training()->mutable_early_stopping();
  request.mutable_spec()->mutable_data()->mutable_held_out()->set_every(5);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(
      Descriptions(),
      ElementsAre("started 0", "progress 1", "evaluation 15", "evaluation 30",
                  "checkpoint 30", "log", "ended SUCCEEDED"));
  EXPECT_THAT(reports_[5].log().text(),
              ::testing::HasSubstr("stopped early after step 30 of 100"));
}

TEST_F(JobRunnerTest, ResumesFromACheckpoint) {
  StartJob request = Request(6);
  request.set_resume_manifest_sha256(DigestOfStep(4));
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 4", "progress 5", "progress 6",
                          "checkpoint 6", "ended SUCCEEDED"));
}

TEST_F(JobRunnerTest, CallsBackWhileTheDeviceIsAtAStep) {
  absl::Notification gate;
  engine_ = std::make_unique<testing_engine::FakeEngine>(
      testing_engine::FakeEngineSettings{.step_gate = &gate});
  JobRunner runner = Runner(Request(2));
  int calls = 0;
  const auto meanwhile = [&] {
    if (++calls == 3) gate.Notify();
  };
  ASSERT_TRUE(runner.Advance(meanwhile));
  EXPECT_EQ(calls, 0);  // it was opened
  ASSERT_TRUE(runner.Advance(meanwhile));
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(Descriptions(), ElementsAre("started 0", "progress 1"));
  RunToEnd(&runner);
  EXPECT_EQ(calls, 3);
}

TEST_F(JobRunnerTest, CancelEndsAtTheNextStepWithoutCheckpoint) {
  JobRunner runner = Runner(Request(100));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(runner.Advance());
  runner.Stop(StopJob::CANCELLED);
  EXPECT_FALSE(runner.Advance());
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "ended STOPPED"));
}

TEST_F(JobRunnerTest, DrainSavesACheckpointFirst) {
  JobRunner runner = Runner(Request(100));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(runner.Advance());
  runner.Stop(StopJob::DRAIN);
  RunToEnd(&runner);
  EXPECT_THAT(WithoutSaving(), ElementsAre("started 0", "progress 1",
                                           "checkpoint 4", "ended STOPPED"));
}

TEST_F(JobRunnerTest, DrainBeforeTheFirstStepSavesNothing) {
  JobRunner runner = Runner(Request(100));
  runner.Stop(StopJob::DRAIN);
  EXPECT_FALSE(runner.Advance());
  EXPECT_THAT(Descriptions(), ElementsAre("ended STOPPED"));
}

TEST_F(JobRunnerTest, DrainDoesNotReviveACancelledJob) {
  JobRunner runner = Runner(Request(100));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(runner.Advance());
  runner.Stop(StopJob::CANCELLED);
  runner.Stop(StopJob::DRAIN);
  EXPECT_FALSE(runner.Advance());
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "ended STOPPED"));
}

TEST_F(JobRunnerTest, LossThatIsNotFiniteFailsTheJobAndKeepsTheCheckpoint) {
  StartJob request = Request(100);
  request.mutable_spec()->set_name("nan-at-5");
  request.mutable_spec()->mutable_training()->set_checkpoint_every_steps(2);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "checkpoint 2",
                          "checkpoint 4", "ended FAILED"));
  EXPECT_EQ(reports_.back().ended().error().step(), 5u);
}

TEST_F(JobRunnerTest, BrokenDeviceInterruptsTheJob) {
  StartJob request = Request(100);
  request.mutable_spec()->set_name("broken-at-3");
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_EQ(Descriptions().back(), "ended INTERRUPTED");
}

TEST_F(JobRunnerTest, JobThatCannotBeOpenedEnds) {
  StartJob request = Request(100);
  request.mutable_spec()->set_name("unknown");
  JobRunner runner = Runner(request);
  EXPECT_FALSE(runner.Advance());
  EXPECT_THAT(Descriptions(), ElementsAre("ended FAILED"));
}

TEST_F(JobRunnerTest, ReportsAtTheIntervalThatTheJobAsksFor) {
  engine_ = std::make_unique<testing_engine::FakeEngine>(
      testing_engine::FakeEngineSettings{.step_time =
                                             std::chrono::milliseconds(11)});
  StartJob request = Request(7);
  request.mutable_spec()->mutable_training()->set_report_every_steps(3);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "progress 3", "progress 6",
                          "progress 7", "checkpoint 7", "ended SUCCEEDED"));
  EXPECT_GT(reports_[3].progress().samples_per_second(), 0);
  EXPECT_GT(reports_[3].progress().seconds_left(), 0);
  EXPECT_EQ(reports_[3].progress().input_wait(), 0.25);
  EXPECT_EQ(reports_[3].progress().loss(), 1. / 6);
  EXPECT_EQ(reports_[3].progress().learning_rate(), 0.5 / 6);
}

TEST_F(JobRunnerTest, EveryStepOfAShortJobIsReported) {
  StartJob request = Request(30);
  request.mutable_spec()->mutable_training()->set_report_every_steps(1);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  std::vector<uint64_t> steps;
  for (const Report& report : reports_) {
    if (report.has_progress()) steps.push_back(report.progress().step());
  }
  std::vector<uint64_t> all(30);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(steps, all);
}

// ------------------------------------------------- what is written behind

class WriteBehindTest : public JobRunnerTest {
 protected:
  // Returns a job called `name` with a checkpoint every two steps, on a disk
  // that waits for gate_.
  StartJob Every2(uint64_t steps, const std::string& name = "") {
    engine_ = std::make_unique<testing_engine::FakeEngine>(
        testing_engine::FakeEngineSettings{.write_gate = &gate_});
    StartJob request = Request(steps);
    request.mutable_spec()->set_name(name);
    request.mutable_spec()->mutable_training()->set_checkpoint_every_steps(2);
    return request;
  }
  void TearDown() override {
    if (!gate_.HasBeenNotified()) gate_.Notify();
    writer_.Finish();
  }
  static void Advance(JobRunner* runner, int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(runner->Advance());
  }
  absl::Notification gate_;
};

TEST_F(WriteBehindTest, TrainingGoesOnAndNothingIsReportedBeforeItIsOnDisk) {
  JobRunner runner = Runner(Every2(100));
  Advance(&runner, 1 + 3);
  EXPECT_EQ(runner.step(), 3u);
  EXPECT_THAT(DescriptionsNow(), ElementsAre("started 0", "progress 1"));
  gate_.Notify();
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "checkpoint 2"));
}

TEST_F(WriteBehindTest, TheNextOneWaitsForTheOneBefore) {
  JobRunner runner = Runner(Every2(100));
  Advance(&runner, 1 + 3);
  std::thread disk([this] { gate_.Notify(); });
  Advance(&runner, 1);  // the fourth step, whose copy waits for the disk
  disk.join();
  EXPECT_THAT(Descriptions(), ElementsAre("started 0", "progress 1",
                                          "checkpoint 2", "checkpoint 4"));
}

TEST_F(WriteBehindTest, AStopLeavesTheDeviceAtOnceAndEndsOnceMoreOnDisk) {
  JobRunner runner = Runner(Every2(100));
  Advance(&runner, 1 + 3);
  runner.Stop(StopJob::DRAIN);
  EXPECT_FALSE(runner.Advance());
  EXPECT_EQ(runner.step(), 0u);  // the training was destroyed
  ASSERT_TRUE(runner.saves());
  LetSave(&runner);
  EXPECT_THAT(DescriptionsNow(),
              ElementsAre("started 0", "progress 1", "ended SAVING"));
  gate_.Notify();
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "ended SAVING",
                          "checkpoint 2", "checkpoint 3", "ended STOPPED"));
  EXPECT_GT(reports_[4].write_seconds(), 0);
}

TEST_F(WriteBehindTest, AStopAtTheStepOfTheCopyThatIsBeingWritten) {
  JobRunner runner = Runner(Every2(100));
  Advance(&runner, 1 + 2);
  runner.Stop(StopJob::DRAIN);
  RunToEnd(&runner);
  gate_.Notify();
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "ended SAVING",
                          "checkpoint 2", "ended STOPPED"));
}

TEST_F(WriteBehindTest, AFullDiskAfterAStopIsTheEndOfTheAttempt) {
  JobRunner runner = Runner(Every2(100, "full-at-3"));
  Advance(&runner, 1 + 3);
  runner.Stop(StopJob::DRAIN);
  RunToEnd(&runner);
  gate_.Notify();
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "ended SAVING",
                          "checkpoint 2", "ended INTERRUPTED"));
  EXPECT_EQ(reports_.back().ended().error().message(), "the disk is full");
  EXPECT_TRUE(reports_.back().ended().full_disk());
  EXPECT_EQ(reports_.back().ended().device_fault(), JobEnded::NONE);
}

TEST_F(WriteBehindTest, TheHostHoldsTwoCopiesAtMost) {
  JobRunner first = Runner(Every2(100));
  Advance(&first, 1 + 3);  // one is being written
  first.Stop(StopJob::DRAIN);
  RunToEnd(&first);  // and another waits
  StartJob request = Request(100);
  JobRunner second = Runner(request);
  Advance(&second, 1 + 1);
  second.Stop(StopJob::DRAIN);
  std::thread disk([this] { gate_.Notify(); });
  RunToEnd(&second);  // waits for the first write
  disk.join();
  const std::vector<std::string> all = DescriptionsNow();
  EXPECT_TRUE(::testing::Value(all, ::testing::Contains("checkpoint 2")));
  EXPECT_EQ(WithoutSaving().back(), "ended STOPPED");
}

TEST_F(WriteBehindTest, ACancelledJobWaitsForNoWrite) {
  JobRunner runner = Runner(Every2(100));
  Advance(&runner, 1 + 3);
  runner.Stop(StopJob::CANCELLED);
  EXPECT_FALSE(runner.Advance());
  EXPECT_THAT(DescriptionsNow(),
              ElementsAre("started 0", "progress 1", "ended STOPPED"));
  gate_.Notify();
}

TEST_F(WriteBehindTest, AFullDiskInterruptsTheJobAtTheNextStep) {
  gate_.Notify();
  JobRunner runner = Runner(Every2(100, "full-at-4"));
  RunToEnd(&runner);
  EXPECT_THAT(Descriptions(), ElementsAre("started 0", "progress 1",
                                          "checkpoint 2", "ended INTERRUPTED"));
  EXPECT_EQ(runner.step(), 0u);
  EXPECT_EQ(reports_.back().ended().error().message(), "the disk is full");
  EXPECT_TRUE(reports_.back().ended().full_disk());
}

TEST_F(WriteBehindTest, SuccessWaitsForAllThatIsBeingWritten) {
  StartJob request = Every2(4);
  JobRunner runner = Runner(request);
  Advance(&runner, 1 + 3);
  std::thread disk([this] { gate_.Notify(); });
  RunToEnd(&runner);
  disk.join();
  EXPECT_THAT(WithCheckpointsLast(),
              ElementsAre("started 0", "progress 1", "progress 4",
                          "ended SUCCEEDED", "checkpoint 2", "checkpoint 4"));
  EXPECT_EQ(Describe(reports_.back()), "ended SUCCEEDED");
}

TEST_F(WriteBehindTest, WithoutRoomForACopyTrainingWaitsForTheDisk) {
  JobRunner runner = Runner(Every2(100, "no-room"));
  Advance(&runner, 1 + 3);
  EXPECT_THAT(DescriptionsNow(),
              ElementsAre("started 0", "progress 1", "checkpoint 2"));
  runner.Stop(StopJob::DRAIN);
  EXPECT_FALSE(runner.Advance());
  EXPECT_FALSE(runner.saves());
  EXPECT_THAT(DescriptionsNow(),
              ElementsAre("started 0", "progress 1", "checkpoint 2",
                          "checkpoint 3", "ended STOPPED"));
}

TEST_F(WriteBehindTest, ACopyTakesNoMoreOfTheHostThanIsFree) {
  const StartJob request = Every2(100);
  engine_ = std::make_unique<testing_engine::FakeEngine>(
      testing_engine::FakeEngineSettings{.checkpoint_bytes = uint64_t{1}
                                                             << 60});
  JobRunner runner = Runner(request);
  Advance(&runner, 1 + 3);
  EXPECT_THAT(DescriptionsNow(),
              ElementsAre("started 0", "progress 1", "checkpoint 2"));
}

// -------------------------------------------------------------------- profiles

class ProfileTest : public JobRunnerTest {
 protected:
  JobRunner::ProfileSink Sink() {
    return [this](absl::StatusOr<worker::v1::ProfileReply> reply) {
      answers_.push_back(std::move(reply));
    };
  }
  static v1::ProfileSchedule& ScheduleOf(StartJob& request) {
    return *request.mutable_spec()->mutable_training()->mutable_profile();
  }
  std::vector<v1::RecordedProfile> Recorded() const {
    std::vector<v1::RecordedProfile> recorded;
    for (const Report& report : reports_) {
      if (report.has_profile()) recorded.push_back(report.profile());
    }
    return recorded;
  }
  std::vector<std::string> LogLines() const {
    std::vector<std::string> lines;
    for (const Report& report : reports_) {
      if (report.has_log()) lines.push_back(report.log().text());
    }
    return lines;
  }

  std::vector<absl::StatusOr<worker::v1::ProfileReply>> answers_;
};

TEST_F(ProfileTest, IsAnsweredAfterItsLastStep) {
  JobRunner runner = Runner(Request(100));
  for (int i = 0; i < 1 + 5; ++i) ASSERT_TRUE(runner.Advance());
  runner.Profile(3, Sink());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(runner.Advance());
  EXPECT_TRUE(answers_.empty());
  ASSERT_TRUE(runner.Advance());
  ASSERT_EQ(answers_.size(), 1u);
  ASSERT_TRUE(answers_[0].ok()) << answers_[0].status();
  EXPECT_EQ(answers_[0]->steps(), 3u);
  EXPECT_EQ(answers_[0]->bytes(), 12u);
  EXPECT_EQ(answers_[0]->sha256(), testing_engine::DigestOfStep(3));
  ASSERT_TRUE(runner.Advance());
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(ProfileTest, BeforeTheTrainingIsOpenItWaitsForItsFirstSteps) {
  JobRunner runner = Runner(Request(100));
  runner.Profile(1, Sink());
  ASSERT_TRUE(runner.Advance());
  EXPECT_TRUE(answers_.empty());
  ASSERT_TRUE(runner.Advance());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok()) << answers_[0].status();
}

TEST_F(ProfileTest, AJobThatEndsBeforeGivesTheStepsThatWereMade) {
  JobRunner runner = Runner(Request(4));
  runner.Profile(20, Sink());
  RunToEnd(&runner);
  ASSERT_EQ(answers_.size(), 1u);
  ASSERT_TRUE(answers_[0].ok()) << answers_[0].status();
  EXPECT_EQ(answers_[0]->steps(), 4u);
}

TEST_F(ProfileTest, AJobThatEndsBeforeAStepGivesAnError) {
  JobRunner runner = Runner(Request(100));
  ASSERT_TRUE(runner.Advance());
  runner.Profile(20, Sink());
  runner.Stop(StopJob::CANCELLED);
  EXPECT_FALSE(runner.Advance());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(answers_[0].status()));
}

TEST_F(ProfileTest, OneIsMadeAtATime) {
  JobRunner runner = Runner(Request(100));
  runner.Profile(2, Sink());
  runner.Profile(2, Sink());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(answers_[0].status()));
  for (int i = 0; i < 1 + 2; ++i) ASSERT_TRUE(runner.Advance());
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_TRUE(answers_[1].ok());
}

TEST_F(ProfileTest, OneThatTheEngineRefusesDoesNotDisturbTheJob) {
  JobRunner runner = Runner(Request(3));
  runner.Profile(99, Sink());
  RunToEnd(&runner);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(answers_[0].status()));
  EXPECT_EQ(Describe(reports_.back()), "ended SUCCEEDED");
}

TEST_F(ProfileTest, TheStepsOfItsScheduleAreRecordedAndReported) {
  StartJob request = Request(20);
  v1::ProfileSchedule& schedule = ScheduleOf(request);
  schedule.set_skip_first(4);
  schedule.set_active(3);
  schedule.set_repeat(2);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  const std::vector<v1::RecordedProfile> recorded = Recorded();
  const std::vector<std::string> lines = LogLines();
  ASSERT_EQ(recorded.size(), 2u);
  EXPECT_EQ(recorded[0].cycle(), 1u);
  EXPECT_EQ(recorded[0].first_step(), 5u);
  EXPECT_EQ(recorded[0].steps(), 3u);
  EXPECT_EQ(recorded[0].sha256(), DigestOfStep(3));
  EXPECT_EQ(recorded[1].first_step(), 8u);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[1], ::testing::HasSubstr("gpupool profile 7 --recorded 2"));
  EXPECT_THAT(lines[1], ::testing::Not(::testing::HasSubstr("unless")));
  EXPECT_EQ(Describe(reports_.back()), "ended SUCCEEDED");
}

TEST_F(ProfileTest, TheRestOfACycleIsSaidToBeKeptOnlyIfItIsTheLongerPart) {
  StartJob request = Request(20);
  v1::ProfileSchedule& schedule = ScheduleOf(request);
  schedule.set_active(6);
  schedule.set_repeat(2);
  request.set_resume_manifest_sha256(DigestOfStep(4));
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  const std::vector<std::string> lines = LogLines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0],
              ::testing::HasSubstr("2 steps from step 5 on; unless "));
  EXPECT_THAT(lines[1], ::testing::Not(::testing::HasSubstr("unless")));
}

TEST_F(ProfileTest, OneOfTheScheduleAndOneThatIsAskedForTakeTurns) {
  StartJob request = Request(100);
  v1::ProfileSchedule& schedule = ScheduleOf(request);
  schedule.set_active(4);
  schedule.set_wait(4);
  schedule.set_repeat(2);
  JobRunner runner = Runner(request);
  for (int i = 0; i < 1 + 5; ++i) ASSERT_TRUE(runner.Advance());
  runner.Profile(2, Sink());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(answers_[0].status()));
  EXPECT_THAT(std::string(answers_[0].status().message()),
              ::testing::HasSubstr("training.profile"));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(runner.Advance());
  // The second cycle has the steps 13 to 16; these two are asked for.
  runner.Profile(4, Sink());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(runner.Advance());
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_TRUE(answers_[1].ok()) << answers_[1].status();
  const std::vector<v1::RecordedProfile> recorded = Recorded();
  ASSERT_EQ(recorded.size(), 2u);
  EXPECT_EQ(recorded[1].first_step(), 15u);
  EXPECT_EQ(recorded[1].steps(), 2u);
}

TEST_F(ProfileTest, AStopWithinACycleReportsItsSteps) {
  StartJob request = Request(100);
  ScheduleOf(request).set_active(50);
  JobRunner runner = Runner(request);
  for (int i = 0; i < 1 + 3; ++i) ASSERT_TRUE(runner.Advance());
  runner.Stop(StopJob::CANCELLED);
  EXPECT_FALSE(runner.Advance());
  const std::vector<std::string> described = Descriptions();
  ASSERT_GE(described.size(), 2u);
  EXPECT_EQ(described[described.size() - 2], "profile 1");
  EXPECT_EQ(described.back(), "ended STOPPED");
}

// ------------------------------------------------------------ ranks of a group

class RankTest : public JobRunnerTest {
 protected:
  StartJob RankRequest(uint32_t rank, uint64_t steps) {
    StartJob request = Request(steps);
    request.mutable_group()->set_rank(rank);
    request.mutable_group()->set_size(2);
    return request;
  }
};

TEST_F(RankTest, OnlyRankZeroReportsAndSaves) {
  StartJob request = RankRequest(1, 6);
  request.mutable_spec()->mutable_training()->set_checkpoint_every_steps(2);
  request.mutable_spec()->mutable_data()->mutable_held_out()->set_every(5);
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(Descriptions(), ElementsAre("ended SUCCEEDED"));
  reports_.clear();
  request.mutable_group()->set_rank(0);
  JobRunner lead = Runner(request);
  RunToEnd(&lead);
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "checkpoint 2",
                          "checkpoint 4", "progress 6", "evaluation 6",
                          "checkpoint 6", "ended SUCCEEDED"));
}

TEST_F(RankTest, ADrainOfOneRankEndsAllAfterTheSameStep) {
  JobRunner lead = Runner(RankRequest(0, 100));
  JobRunner other = Runner(RankRequest(1, 100));
  for (int i = 0; i < 4; ++i) {  // opens, then three steps
    ASSERT_TRUE(lead.Advance());
    ASSERT_TRUE(other.Advance());
  }
  other.Stop(StopJob::DRAIN);
  ASSERT_TRUE(lead.Advance());
  ASSERT_TRUE(other.Advance());
  reports_.clear();
  EXPECT_FALSE(other.Advance());
  EXPECT_THAT(Descriptions(), ElementsAre("ended STOPPED"));
  RunToEnd(&lead);
  EXPECT_THAT(WithoutSaving(),
              ElementsAre("ended STOPPED", "checkpoint 4", "ended STOPPED"));
}

TEST_F(RankTest, ADrainBeforeTheRanksHaveMetWaitsForThem) {
  JobRunner lead = Runner(RankRequest(0, 100));
  lead.Stop(StopJob::DRAIN);
  RunToEnd(&lead);
  EXPECT_THAT(WithoutSaving(), ElementsAre("started 0", "progress 1",
                                           "checkpoint 1", "ended STOPPED"));
}

TEST_F(RankTest, ACancelEndsARankAtOnceWithoutACheckpoint) {
  JobRunner lead = Runner(RankRequest(0, 100));
  ASSERT_TRUE(lead.Advance());
  ASSERT_TRUE(lead.Advance());
  lead.Stop(StopJob::CANCELLED);
  EXPECT_FALSE(lead.Advance());
  EXPECT_THAT(Descriptions(),
              ElementsAre("started 0", "progress 1", "ended STOPPED"));
}

TEST_F(RankTest, AnAbortWhileItWaitsForOthersIsAStopAndNoFault) {
  StartJob request = RankRequest(0, 100);
  request.mutable_spec()->set_name("lonely");
  const auto abort = std::make_shared<engine::AbortSwitch>();
  JobRunner runner(
      request,
      {engine_.get(),
       [this](Report report) { reports_.push_back(std::move(report)); },
       &writer_},
      abort);
  abort->Abort("told to stop");
  EXPECT_FALSE(runner.Advance());
  EXPECT_THAT(Descriptions(), ElementsAre("ended STOPPED"));
}

TEST_F(RankTest, ALostPeerIsAnInterruption) {
  StartJob request = RankRequest(1, 100);
  request.mutable_spec()->set_name("broken-at-2");
  JobRunner runner = Runner(request);
  RunToEnd(&runner);
  EXPECT_THAT(Descriptions(), ElementsAre("ended INTERRUPTED"));
}

}  // namespace
}  // namespace gpupool::server
