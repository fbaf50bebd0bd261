#include "server/worker/watched_engine.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/worker/rehearsal/training_rehearsal.h"
#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

using testing_engine::FakeEngine;

class WatchedEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto page = WorkPage::Create();
    ASSERT_TRUE(page.ok()) << page.status();
    page_.emplace(*std::move(page));
    Watch({});
  }
  void Watch(testing_engine::FakeEngineSettings settings) {
    engine_ =
        WatchEngine(std::make_unique<FakeEngine>(std::move(settings)), &*page_);
  }
  std::unique_ptr<engine::Training> Start(const std::string& name) {
    worker::v1::StartJob request;
    request.set_job_id(7);
    request.mutable_spec()->set_name(name);
    request.mutable_spec()->mutable_training()->set_steps(100);
    auto training = engine_->StartTraining(request, nullptr);
    EXPECT_TRUE(training.ok()) << training.status();
    return *std::move(training);
  }
  static absl::Status StepOf(engine::Training& training) {
    return training.Step();
  }

  std::optional<WorkPage> page_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(WatchedEngineTest, WorkIsMarkedWhileItRuns) {
  const auto training = Start("job");
  ASSERT_TRUE(StepOf(*training).ok());
  EXPECT_FALSE(page_->Read().busy);
  page_->Begin(WorkPhase::kStep, {.job_id = 7});
  EXPECT_GT(page_->Read().mean.count(), 0);  // the mean of the step
}

TEST_F(WatchedEngineTest, ATrainingTellsItsLearningRate) {
  const auto training = Start("job");
  ASSERT_TRUE(StepOf(*training).ok());
  ASSERT_TRUE(StepOf(*training).ok());
  EXPECT_EQ(training->learning_rate(), 0.25);
}

TEST_F(WatchedEngineTest, AStepIsMarkedFromItsStartToItsEnd) {
  const auto training = Start("job");
  const auto model = engine_->LoadModel({});
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE(training->StartStep().ok());
  EXPECT_EQ(page_->Read().phase, WorkPhase::kStep);
  EXPECT_EQ(page_->Read().owner.job_id, 7u);
  engine::InferenceAnswer answer;
  ASSERT_TRUE((*model)->Infer({.rows = 0}, &answer).ok());
  EXPECT_TRUE(page_->Read().busy);
  EXPECT_EQ(page_->Read().phase, WorkPhase::kStep);
  ASSERT_TRUE(training->FinishStep().ok());
  EXPECT_FALSE(page_->Read().busy);
}

// All rehearsals have one owner, so their steps say nothing about each other.
TEST_F(WatchedEngineTest, ARehearsedStepIsOtherWork) {
  worker::v1::StartJob request;
  request.set_job_id(kRehearsedJob);
  request.set_attempt(kRehearsedAttempt);
  request.mutable_spec()->mutable_training()->set_steps(100);
  const auto training = engine_->StartTraining(request, nullptr);
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE((*training)->StartStep().ok());
  EXPECT_EQ(page_->Read().phase, WorkPhase::kOther);
  EXPECT_EQ(page_->Read().owner.job_id, kRehearsedJob);
  ASSERT_TRUE((*training)->FinishStep().ok());
}

TEST_F(WatchedEngineTest, AJobsOwnErrorEndsNothing) {
  const auto training = Start("nan-at-1");
  EXPECT_FALSE(StepOf(*training).ok());
  EXPECT_EQ(engine_->exit_code(), 0);
  EXPECT_EQ(page_->Read().fault, 0);
}

TEST_F(WatchedEngineTest, ADevicesFaultIsNotedOnceAndOnThePage) {
  const auto training = Start("sticky-at-1");
  EXPECT_FALSE(StepOf(*training).ok());
  EXPECT_EQ(engine_->exit_code(), kExitDeviceFault);
  EXPECT_EQ(page_->Read().owner.job_id, 7u);
  const auto other = Start("suspect-at-1");
  EXPECT_FALSE(StepOf(*other).ok());
  EXPECT_EQ(engine_->exit_code(), kExitDeviceFault);
  EXPECT_EQ(page_->Read().fault, kExitDeviceFault);
  EXPECT_EQ(page_->Read().fault_text, "illegal address");
}

TEST_F(WatchedEngineTest, ASuspectDeviceHasACodeOfItsOwn) {
  const auto training = Start("suspect-at-1");
  EXPECT_FALSE(StepOf(*training).ok());
  EXPECT_EQ(engine_->exit_code(), kExitDeviceSuspect);
}

class FaultOnDemandTest : public WatchedEngineTest {
 protected:
  void SetUp() override {
    WatchedEngineTest::SetUp();
    ::setenv("GPUPOOL_INJECT_FAULT_FILE", path_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("GPUPOOL_INJECT_FAULT_FILE");
    std::filesystem::remove(path_ + ".done");
  }
  void Inject(const std::string& line) { std::ofstream(path_) << line; }

  const std::string path_ =
      absl::StrCat(::testing::TempDir(), "/watched-fault-", ::getpid());
};

TEST_F(FaultOnDemandTest, ItIsNotedAsOneOfTheDevice) {
  const auto training = Start("job");
  Inject("suspect 2");
  EXPECT_TRUE(StepOf(*training).ok());
  EXPECT_EQ(engine_->exit_code(), 0);
  EXPECT_FALSE(StepOf(*training).ok());
  EXPECT_EQ(engine_->exit_code(), kExitDeviceSuspect);
  EXPECT_FALSE(page_->Read().busy);
}

TEST_F(FaultOnDemandTest, CopiesAndTheirWritesFailToo) {
  const auto training = Start("job");
  ASSERT_TRUE(StepOf(*training).ok());
  Inject("no-room 1");
  EXPECT_TRUE(absl::IsResourceExhausted(training->CopyCheckpoint().status()));
  const auto copy = training->CopyCheckpoint();
  ASSERT_TRUE(copy.ok());
  Inject("full-write 1");
  EXPECT_TRUE(absl::IsResourceExhausted((*copy)().status()));
  EXPECT_TRUE((*copy)().ok());
}

TEST_F(WatchedEngineTest, ReadingsOfASuspectDeviceEndTheWorkerToo) {
  Watch(
      {.readings_error = absl::DataLossError("suspect: it fell off the bus")});
  EXPECT_FALSE(engine_->Readings().ok());
  EXPECT_EQ(engine_->exit_code(), kExitDeviceSuspect);
  EXPECT_EQ(page_->Read().fault_text, "suspect: it fell off the bus");
}

TEST_F(WatchedEngineTest, ADeviceThatTellsNothingIsNotSuspect) {
  EXPECT_FALSE(engine_->Readings().ok());
  EXPECT_EQ(engine_->exit_code(), 0);
}

}  // namespace
}  // namespace gpupool::server
