#include "engine/train/evaluation_history.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::TrainingSpec SpecFrom(const std::string& text) {
  v1::TrainingSpec training;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &training));
  return training;
}

TEST(EvaluationHistoryTest, StopsAfterPatienceWithoutImprovement) {
  const auto training =
      SpecFrom("early_stopping { patience: 2 min_delta: 0.1 }");
  EvaluationHistory history(&training);
  uint64_t step = 0;
  for (double loss : {1.0, 0.5, 0.45, 0.39, 0.38}) {
    history.Add(++step, loss);
    EXPECT_FALSE(history.stopped()) << step;
  }
  history.Add(++step, 0.30);  // not more than 0.1 below 0.39
  EXPECT_TRUE(history.stopped());
}

TEST(EvaluationHistoryTest, WithoutEarlyStoppingNothingStops) {
  const v1::TrainingSpec training;
  EvaluationHistory history(&training);
  for (uint64_t step = 1; step < 50; ++step) history.Add(step, 1);
  EXPECT_FALSE(history.stopped());
  EXPECT_FALSE(history.newest_is_best());
}

// torch.optim.lr_scheduler.ReduceLROnPlateau lowers the rate at the same
// evaluations, as tests/conformance/pytorch/schedules.py prints them.
TEST(EvaluationHistoryTest, PlateausAreThoseOfPytorch) {
  const auto training = SpecFrom(
      "schedule { plateau { factor: 0.5 patience: 1 threshold: 0.01 "
      "cooldown: 1 minimum: 0.06 } }");
  EvaluationHistory history(&training);
  const std::vector<double> losses = {1.0,  0.995, 0.99, 0.98, 0.98, 0.98,
                                      0.98, 0.98,  0.98, 0.5,  0.6,  0.6,
                                      0.6,  0.6,   0.6,  0.6};
  const std::vector<uint32_t> reductions = {0, 0, 1, 1, 1, 2, 2, 2,
                                            3, 3, 3, 4, 4, 4, 5, 5};
  for (size_t i = 0; i < losses.size(); ++i) {
    history.Add(i + 1, losses[i]);
    EXPECT_EQ(history.reductions(), reductions[i]) << i;
  }
}

TEST(EvaluationHistoryTest, TheBestLossesAreKept) {
  const auto training = SpecFrom("keep_best_checkpoints: 2");
  EvaluationHistory history(&training);
  std::vector<bool> best;
  for (double loss : {0.5, 0.7, 0.6, 0.65, 0.4}) {
    history.Add(best.size() + 1, loss);
    best.push_back(history.newest_is_best());
  }
  EXPECT_THAT(best, ElementsAre(true, true, true, false, true));
  EXPECT_THAT(history.state().best_losses, ElementsAre(0.4, 0.5));
}

TEST(EvaluationHistoryTest, AStepCountsOnce) {
  const auto training = SpecFrom("early_stopping { patience: 1 }");
  EvaluationHistory history(&training);
  history.Add(5, 1);
  history.Add(5, 1);
  EXPECT_FALSE(history.stopped());
}

TEST(EvaluationHistoryTest, LossesThatAreNotFiniteAreNoImprovement) {
  const auto training =
      SpecFrom("early_stopping { patience: 2 } keep_best_checkpoints: 3");
  EvaluationHistory history(&training);
  history.Add(1, std::nan(""));
  EXPECT_FALSE(history.newest_is_best());
  EXPECT_FALSE(history.state().loss.has_value());
  history.Add(2, HUGE_VAL);
  EXPECT_TRUE(history.stopped());
  EXPECT_TRUE(history.state().best_losses.empty());
}

TEST(EvaluationHistoryTest, ARestoredHistoryGoesOnAsIfNothingHadHappened) {
  const auto training = SpecFrom(
      "early_stopping { patience: 4 min_delta: 0.01 } keep_best_checkpoints: 3 "
      "schedule { plateau { patience: 1 cooldown: 2 } }");
  std::vector<double> losses;
  for (int i = 0; i < 12; ++i) losses.push_back(1.0 / 3 + std::sin(i) / 7);
  for (size_t cut = 1; cut < losses.size(); ++cut) {
    EvaluationHistory whole(&training);
    EvaluationHistory first(&training);
    for (size_t i = 0; i < cut; ++i) first.Add(i + 1, losses[i]);
    auto state = ParseEvaluationState(ToJson(first.state()));
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(*state, first.state()) << ToJson(first.state());
    EvaluationHistory second(&training);
    second.Restore(*state);
    for (size_t i = 0; i < losses.size(); ++i) {
      whole.Add(i + 1, losses[i]);
      if (i >= cut) second.Add(i + 1, losses[i]);
    }
    EXPECT_EQ(second.state(), whole.state());
  }
}

TEST(EvaluationStateTest, BrokenTextIsRefusedByField) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "not a JSON object"},
      {R"({"step": -1})", "\"step\""},
      {R"({"stalled": 4294967296})", "\"stalled\""},
      {R"({"loss": "x"})", "\"loss\""},
      {R"({"best_losses": 3})", "\"best_losses\""},
      {R"({"best_losses": ["a"]})", "best loss"},
  };
  for (const auto& [text, message] : cases) {
    auto state = ParseEvaluationState(text);
    EXPECT_EQ(state.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(state.status().message(), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace gpupool::engine
