// The numbers of weighted losses are in losses_test, beside those of the
// others.
#include "engine/model/class_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/model/losses.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TrainingFromText;

TEST(ClassWeightsTest, BothClassificationLossesHaveThem) {
  EXPECT_THAT(ClassWeights(TrainingFromText(
                  "cross_entropy { class_weights: [ 1, 2 ] }")),
              ElementsAre(1, 2));
  EXPECT_THAT(ClassWeights(TrainingFromText(
                  "negative_log_likelihood { class_weights: 3 }")),
              ElementsAre(3));
  EXPECT_TRUE(ClassWeights(TrainingFromText("l1 {}")).empty());
}

TEST(ClassWeightsTest, NumbersOutOfRangeAreNamed) {
  EXPECT_TRUE(CheckLossWeights(TrainingFromText("l1 {}")).ok());
  EXPECT_TRUE(CheckLossWeights(
                  TrainingFromText("cross_entropy { class_weights: [ 0, 1 ] }"))
                  .ok());
  const std::pair<const char*, const char*> cases[] = {
      {"cross_entropy { class_weights: [ 1, nan ] }",
       "cross_entropy.class_weights[1] is nan"},
      {"cross_entropy { class_weights: [ 0, 0 ] }", "are all 0"},
      {"negative_log_likelihood { class_weights: inf }",
       "negative_log_likelihood.class_weights[0] is inf"},
      {"bce_with_logits { positive_weights: [ 1, 0 ] }",
       "bce_with_logits.positive_weights[1] is 0; each weight must be above 0"},
  };
  for (const auto& [training, message] : cases) {
    EXPECT_THAT(CheckLossWeights(TrainingFromText(training)).message(),
                HasSubstr(message));
  }
}

TEST(ClassWeightsTest, WeightsAreAsManyAsTheClassesOrOutputs) {
  const auto refusal = [](const std::string& training) {
    Graph graph;
    GraphBuilder builder(&graph);
    const auto scores = builder.Persistent("scores", {DType::kFloat32, {2, 3}},
                                           MemoryClass::kWeight);
    const auto loss = AddLoss(TrainingFromText(training), *scores, builder);
    EXPECT_EQ(loss.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(loss.status().message());
  };
  EXPECT_EQ(refusal("cross_entropy { class_weights: [ 1, 2 ] }"),
            "cross_entropy.class_weights has 2 weights, but the model tells 3 "
            "classes apart; give one for each class");
  EXPECT_THAT(
      refusal("negative_log_likelihood { class_weights: [ 1, 2, 3, 4 ] }"),
      HasSubstr("has 4 weights, but the model tells 3 classes"));
  EXPECT_EQ(refusal("bce_with_logits { positive_weights: [ 1, 2 ] }"),
            "bce_with_logits.positive_weights has 2 weights, but the model's "
            "output has 3 numbers; give one weight, or one for each number");
}

}  // namespace
}  // namespace gpupool::engine
