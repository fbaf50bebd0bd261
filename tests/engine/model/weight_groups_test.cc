#include "engine/model/weight_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/model/trained_weights.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using testing::ModelFromText;
using testing::TrainingFromText;

using Options = std::map<std::string, ParameterOptions>;

absl::StatusOr<Options> Of(const std::string& training) {
  const ModelGraph model = *BuildModel(
      ModelFromText("input_shape: [2, 4, 4] "
                    "layers { name: 'stem' conv2d { filters: 3 kernel: 3 } } "
                    "layers { name: 'norm' batch_norm {} } "
                    "layers { flatten {} } "
                    "layers { name: 'head' dense { units: 3 } }"),
      {.batch = 2, .training = true});
  std::vector<ValueId> parameters;
  for (const std::string& name : WeightNames(model.graph)) {
    parameters.push_back(model.graph.FindValue(name)->id);
  }
  auto options =
      OptionsOfWeights(TrainingFromText(training), model.graph, parameters);
  if (!options.ok()) return options.status();
  Options by_name;
  for (size_t i = 0; i < parameters.size(); ++i) {
    by_name[model.graph.value(parameters[i]).name] = (*options)[i];
  }
  return by_name;
}

TEST(WeightGroupsTest, OnlyAdamwSparesBiasesAndNorms) {
  for (const char* training :
       {"adam {}", "sgd { learning_rate: 1 weight_decay: 1 }", "lion {}",
        "adamw {} decay_biases_and_norms: true"}) {
    const auto options = Of(training);
    ASSERT_TRUE(options.ok()) << options.status();
    for (const auto& [name, own] : *options) {
      EXPECT_EQ(own, ParameterOptions()) << training << " " << name;
    }
  }
  for (const char* training :
       {"adamw {}", "adam {} decay_biases_and_norms: false"}) {
    const Options options = *Of(training);
    for (const char* name :
         {"stem.bias", "norm.weight", "norm.bias", "head.bias"}) {
      EXPECT_EQ(options.at(name).weight_decay, 0) << training << " " << name;
    }
    for (const char* name : {"stem.weight", "head.weight"}) {
      EXPECT_EQ(options.at(name), ParameterOptions());
    }
  }
}

TEST(WeightGroupsTest, TheFirstGroupThatMatchesHolds) {
  const Options options = *Of(
      "adamw {} "
      "groups { weights: ['head.weight', 'norm.*'] learning_rate_factor: 10 } "
      "groups { weights: 'head.*' weight_decay: 0.5 } "
      "groups { weights: '*.weight' weight_decay: 0 learning_rate_factor: 0 }");
  EXPECT_EQ(options.at("head.weight"), (ParameterOptions{.rate_factor = 10}));
  EXPECT_EQ(options.at("norm.weight"), (ParameterOptions{10, 0}));
  EXPECT_EQ(options.at("norm.bias"), (ParameterOptions{10, 0}));
  EXPECT_EQ(options.at("head.bias"), (ParameterOptions{1, 0.5}))
      << "a group's own decay also holds for biases";
  EXPECT_EQ(options.at("stem.weight"), (ParameterOptions{0, 0}));
  EXPECT_EQ(options.at("stem.bias"), (ParameterOptions{1, 0}));
}

TEST(WeightGroupsTest, AGroupWithoutANumberKeepsItsWeightsFromLaterOnes) {
  const Options options =
      *Of("adam {} groups { weights: 'head.*' } "
          "groups { weights: '*' learning_rate_factor: 0.1 }");
  EXPECT_EQ(options.at("head.weight"), ParameterOptions());
  EXPECT_EQ(options.at("stem.weight").rate_factor, 0.1);
}

TEST(WeightGroupsTest, WhatCannotBeMeantIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"groups { weights: 'head.*' } groups { weights: ['*', 'haed.*'] }",
       "training.groups[1].weights: no weight is named 'haed.*'; close names "
       "are 'head.bias'"},
      {"groups { learning_rate_factor: 2 }",
       "training.groups[0] names no weights"},
      {"groups { weights: '*' learning_rate_factor: -1 }",
       "training.groups[0].learning_rate_factor -1 must be at least 0"},
      {"groups { weights: '*' weight_decay: nan }",
       "training.groups[0].weight_decay nan must be at least 0"},
  };
  for (const auto& [groups, message] : cases) {
    const auto options = Of(std::string("adam {} ") + groups);
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(options.status().message(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace gpupool::engine
