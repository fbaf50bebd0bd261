#include "server/serving/ensemble_run.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/ensemble_fixture.h"
#include "tests/server/serving/sequence_fixture.h"
#include "tests/server/serving/test_call.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EnsembleRunTest : public ::testing::Test {
 protected:
  void Start(const EnsembleSpec& spec) {
    std::vector<VersionHandle> versions;
    for (const EnsembleStep& step : spec.steps) {
      versions.push_back(steps_.version(step.model));
    }
    run_ = std::make_shared<EnsembleRun>(
        steps_.Bind(spec), std::move(versions), &call_,
        [](EnsembleRun& run, const absl::Status& status) {
          run.Answer(status);
        });
    run_->Start();
  }
  std::string message() const { return std::string(call_.status().message()); }

  FakeSteps steps_;
  TestCall call_{2, {1, 2, 3, 4}};
  std::shared_ptr<EnsembleRun> run_;
};

TEST_F(EnsembleRunTest, AStepTakesWhatTheOneBeforeGives) {
  Start(ChainSpec());
  ASSERT_THAT(steps_["pre"].waiting, SizeIs(1));
  EXPECT_THAT(steps_["net"].waiting, IsEmpty());
  EXPECT_EQ(steps_["pre"].waiting[0]->inputs.rows, 2u);
  steps_["pre"].Answer();
  ASSERT_THAT(steps_["net"].waiting, SizeIs(1));
  EXPECT_FALSE(call_.is_done());
  steps_["net"].Answer();
  ASSERT_TRUE(call_.is_done());
  EXPECT_TRUE(call_.status().ok()) << call_.status();
  EXPECT_THAT(call_.output(), ElementsAre(4, 8, 12, 16));
  EXPECT_THAT(call_.output_shapes, ElementsAre(ElementsAre(2)));
}

TEST_F(EnsembleRunTest, IndependentStepsRunAtTheSameTimeOnTheSameBytes) {
  Start(DiamondSpec());
  ASSERT_THAT(steps_["top"].waiting, SizeIs(1));
  EXPECT_EQ(steps_["top"].waiting[0]->inputs.bytes[0].data(),
            call_.inputs.bytes[0].data())
      << "the client's bytes are not copied";
  steps_["top"].Answer();
  ASSERT_THAT(steps_["left"].waiting, SizeIs(1));
  ASSERT_THAT(steps_["right"].waiting, SizeIs(1));
  EXPECT_EQ(steps_["left"].waiting[0]->inputs.bytes[0].data(),
            steps_["right"].waiting[0]->inputs.bytes[0].data());
  steps_["right"].Answer();
  EXPECT_THAT(steps_["join"].waiting, IsEmpty());
  steps_["left"].Answer();
  ASSERT_THAT(steps_["join"].waiting, SizeIs(1));
  steps_["join"].Answer();
  ASSERT_TRUE(call_.is_done());
  EXPECT_THAT(call_.output(), ElementsAre(16, 32, 48, 64));
}

TEST_F(EnsembleRunTest, StepsThatAnswerAtOnceEndTheRunAtOnce) {
  for (const char* model : {"top", "left", "right", "join"}) {
    steps_[model].at_once = true;
  }
  Start(DiamondSpec());
  ASSERT_TRUE(call_.is_done());
  EXPECT_THAT(call_.output(), ElementsAre(16, 32, 48, 64));
}

TEST_F(EnsembleRunTest, StepsThatServeSequencesGetThePlaceOfTheRequest) {
  const auto memory = std::make_shared<FakeStep>(1);
  const std::vector<VersionHandle> versions = {
      steps_.version("pre"),
      std::make_shared<ServedVersion>(
          *MakeVersionFacts(SequenceVersion("memory")), memory, nullptr)};
  EnsembleSpec spec = ChainSpec();
  spec.steps[1] = StepOf("memory", {{"x", "m"}}, {{"y", "y"}});
  auto graph = MakeEnsembleGraph(spec);
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto binding = BindEnsemble(
      spec, std::make_shared<const EnsembleGraph>(*std::move(graph)), versions);
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_TRUE(binding->facts.takes_sequences);
  call_.sequence = {.id = {.number = 7}, .start = true};
  run_ = std::make_shared<EnsembleRun>(
      std::make_shared<const EnsembleBinding>(*std::move(binding)), versions,
      &call_,
      [](EnsembleRun& run, const absl::Status& status) { run.Answer(status); });
  run_->Start();
  EXPECT_TRUE(steps_["pre"].waiting[0]->sequence.IsEmpty());
  steps_["pre"].Answer();
  ASSERT_THAT(memory->waiting, SizeIs(1));
  EXPECT_EQ(memory->waiting[0]->sequence.id.number, 7u);
  EXPECT_TRUE(memory->waiting[0]->sequence.start);
  memory->Answer();
  EXPECT_TRUE(call_.status().ok()) << call_.status();
}

TEST_F(EnsembleRunTest, AnErrorNamesItsStepAndTakesOthersOutOfTheirQueues) {
  Start(DiamondSpec());
  steps_["top"].Answer();
  steps_["left"].Answer(absl::InvalidArgumentError("bad index"));
  EXPECT_THAT(steps_["right"].waiting, IsEmpty());
  EXPECT_THAT(steps_["join"].waiting, IsEmpty());
  ASSERT_TRUE(call_.is_done());
  EXPECT_TRUE(absl::IsInvalidArgument(call_.status()));
  EXPECT_EQ(message(), "step 2 (model 'left' version 1): bad index");
}

TEST_F(EnsembleRunTest, AnErrorWaitsForStepsThatAreComputed) {
  Start(DiamondSpec());
  steps_["top"].Answer();
  steps_["right"].Launch();
  steps_["left"].Answer(absl::UnavailableError("worker lost"));
  EXPECT_FALSE(call_.is_done()) << "the other step still reads the tensor";
  steps_["right"].Answer();
  ASSERT_TRUE(call_.is_done());
  EXPECT_TRUE(absl::IsUnavailable(call_.status()));
  EXPECT_THAT(message(), HasSubstr("step 2 (model 'left' version 1)"));
  EXPECT_THAT(steps_["join"].waiting, IsEmpty());
}

TEST_F(EnsembleRunTest, ACancelTakesStepsOutOfTheirQueues) {
  Start(DiamondSpec());
  steps_["top"].Answer();
  run_->Cancel(absl::CancelledError("by the client"));
  EXPECT_THAT(steps_["left"].waiting, IsEmpty());
  EXPECT_THAT(steps_["right"].waiting, IsEmpty());
  ASSERT_TRUE(call_.is_done());
  EXPECT_TRUE(absl::IsCancelled(call_.status()));
  EXPECT_EQ(message(), "by the client");
}

TEST_F(EnsembleRunTest, AfterACancelNoStepStarts) {
  Start(ChainSpec());
  steps_["pre"].Launch();
  run_->Cancel(absl::CancelledError("by the client"));
  EXPECT_FALSE(call_.is_done());
  steps_["pre"].Answer();
  ASSERT_TRUE(call_.is_done());
  EXPECT_TRUE(absl::IsCancelled(call_.status()));
  EXPECT_THAT(steps_["net"].waiting, IsEmpty());
}

TEST_F(EnsembleRunTest, ACancelAfterTheEndDoesNothing) {
  Start(ChainSpec());
  steps_["pre"].Answer();
  steps_["net"].Answer();
  run_->Cancel(absl::CancelledError("by the client"));
  EXPECT_TRUE(call_.status().ok());
}

TEST_F(EnsembleRunTest, StepsHaveTheDeadlinesOfTheRequest) {
  call_.deadline = absl::FromUnixSeconds(5'000'000'000);
  call_.queue_deadline = absl::FromUnixSeconds(4'000'000'000);
  Start(ChainSpec());
  EXPECT_EQ(steps_["pre"].waiting[0]->deadline, call_.deadline);
  EXPECT_EQ(steps_["pre"].waiting[0]->queue_deadline, call_.queue_deadline);
  steps_["pre"].Answer();
  EXPECT_EQ(steps_["net"].waiting[0]->deadline, call_.deadline);
  steps_["net"].Answer(absl::DeadlineExceededError("too late"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(call_.status()));
  EXPECT_EQ(message(), "step 2 (model 'net' version 1): too late");
}

TEST_F(EnsembleRunTest, AVersionIsPinnedUntilItsStepHasEnded) {
  Start(ChainSpec());
  const std::weak_ptr<ServedVersion> pre = steps_.version("pre");
  steps_.Forget("pre");
  EXPECT_FALSE(pre.expired());
  steps_["pre"].Answer();
  EXPECT_TRUE(pre.expired());
  steps_["net"].Answer();
}

TEST_F(EnsembleRunTest, TheStepsAreToldForTraces) {
  std::vector<StepTimes> told;
  call_.steps = &told;
  Start(ChainSpec());
  steps_["pre"].Answer(absl::UnavailableError("lost"));
  ASSERT_THAT(told, SizeIs(1)) << "the second step never began";
  EXPECT_EQ(told[0].model, "pre");
  EXPECT_EQ(told[0].version, 1u);
  EXPECT_EQ(told[0].code, absl::StatusCode::kUnavailable);
  EXPECT_LE(told[0].begin, told[0].end);
}

}  // namespace
}  // namespace gpupool::server
