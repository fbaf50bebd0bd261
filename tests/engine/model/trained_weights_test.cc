#include "engine/model/trained_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/model/losses.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelFromText;
using testing::TrainingFromText;

ModelGraph Model() {
  return *BuildModel(
      ModelFromText("input_shape: [2, 4, 4] "
                    "layers { name: 'stem' conv2d { filters: 3 kernel: 3 } } "
                    "layers { name: 'norm' batch_norm {} } "
                    "layers { flatten {} } "
                    "layers { name: 'head' dense { units: 3 } }"),
      {.batch = 2, .training = true});
}

struct Selection {
  std::vector<std::string> trained;
  std::vector<std::string> updated;
  std::vector<std::string> warnings;
};

absl::StatusOr<Selection> Select(const std::string& training,
                                 const std::string& buffer = "") {
  ModelGraph model = Model();
  for (PersistentSpec& spec : model.persistents) {
    spec.buffer = spec.name == buffer;
  }
  GraphBuilder builder(&model.graph);
  const auto spec = TrainingFromText("cross_entropy {} " + training);
  const auto loss = AddLoss(spec, model.output, builder);
  auto trained = SelectTrained(spec, *loss, model);
  if (!trained.ok()) return trained.status();
  Selection selection;
  for (ValueId id : *trained) {
    selection.trained.push_back(model.graph.value(id).name);
  }
  for (const Value& value : model.graph.values()) {
    if (value.alias.kind != AliasKind::kUpdate) continue;
    selection.updated.push_back(model.graph.value(value.alias.of).name);
  }
  selection.warnings = model.warnings;
  return selection;
}

TEST(TrainedWeightsTest, AllOfThemUnlessTheSpecSaysOtherwise) {
  auto selection = Select("");
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_THAT(selection->trained,
              ElementsAre("stem.weight", "stem.bias", "norm.weight",
                          "norm.bias", "head.weight", "head.bias"));
  EXPECT_TRUE(selection->warnings.empty());
}

TEST(TrainedWeightsTest, FreezeTakesAwayFromTrainable) {
  EXPECT_THAT(Select("trainable: 'head.*'")->trained,
              ElementsAre("head.weight", "head.bias"));
  EXPECT_THAT(Select("freeze: ['stem.*', 'norm.bias']")->trained,
              ElementsAre("norm.weight", "head.weight", "head.bias"));
  EXPECT_THAT(Select("trainable: '*.weight' freeze: 'stem.*'")->trained,
              ElementsAre("norm.weight", "head.weight"));
}

TEST(TrainedWeightsTest, BuffersAreTrainedOnlyWhenAPatternMeansThem) {
  const std::string buffer = "stem.bias";
  const std::vector<std::string> others = {
      "stem.weight", "norm.weight", "norm.bias", "head.weight", "head.bias"};
  EXPECT_EQ(Select("", buffer)->trained, others);
  EXPECT_EQ(Select("trainable: '*'", buffer)->trained, others);
  EXPECT_THAT(Select("trainable: 'stem.*'", buffer)->trained,
              ElementsAre("stem.weight"));
  EXPECT_THAT(Select("trainable: ['head.*', 'stem.b*']", buffer)->trained,
              ElementsAre("stem.bias", "head.weight", "head.bias"));
  EXPECT_THAT(
      Select("trainable: ['head.*', 'stem.bias'] freeze: '*.bias'", buffer)
          ->trained,
      ElementsAre("head.weight"));
}

TEST(TrainedWeightsTest, StatisticsGoOnUnlessTheyAreFrozenByName) {
  const std::vector<std::string> both = {"norm.running_mean",
                                         "norm.running_var"};
  EXPECT_EQ(Select("freeze: ['norm.weight', 'norm.bias']")->updated, both);
  EXPECT_EQ(Select("trainable: 'head.*'")->updated, both);
  EXPECT_THAT(Select("freeze: '*.running_var'")->updated,
              ElementsAre("norm.running_mean"));
  EXPECT_TRUE(Select("freeze: '*.running_*'")->updated.empty());
}

TEST(TrainedWeightsTest, APatternWithoutAMatchNamesCloseOnes) {
  auto selection = Select("freeze: 'steam.weight'");
  EXPECT_EQ(selection.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(selection.status().message(),
              HasSubstr("training.freeze: no weight is named 'steam.weight'; "
                        "close names are 'stem.weight', "));
  EXPECT_THAT(Select("trainable: 'norm.running_mean'").status().message(),
              HasSubstr("training.trainable: no weight is named"))
      << "statistics are not trained";
}

TEST(TrainedWeightsTest, NothingLeftIsAnError) {
  EXPECT_THAT(Select("freeze: '*'").status().message(),
              HasSubstr("leave no weight to train"));
}

TEST(TrainedWeightsTest, WeightsWithoutInfluenceGiveAWarning) {
  ModelGraph model = Model();
  GraphBuilder builder(&model.graph);
  ASSERT_TRUE(
      builder.Persistent("aside", {DType::kFloat32, {2}}, MemoryClass::kWeight)
          .ok());
  const auto spec = TrainingFromText("cross_entropy {}");
  auto trained =
      SelectTrained(spec, *AddLoss(spec, model.output, builder), model);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(trained->size(), 6u);
  EXPECT_THAT(model.warnings,
              ElementsAre(HasSubstr("does not depend on 'aside'")));
}

}  // namespace
}  // namespace gpupool::engine
