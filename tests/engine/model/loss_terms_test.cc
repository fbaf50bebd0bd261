#include "engine/model/loss_terms.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/autodiff/gradient.h"
#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

v1::TrainingSpec Training(const std::string& text) {
  v1::TrainingSpec training;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &training));
  return training;
}

// Returns a model with outputs a [6, 3] and b [6, 2] that are its inputs.
ModelGraph TwoOutputs() {
  ModelGraph model;
  GraphBuilder builder(&model.graph);
  for (const auto& [name, shape] :
       {std::pair("a", Shape{6, 3}), std::pair("b", Shape{6, 2})}) {
    const ValueId id = *builder.Input(name, {DType::kFloat32, shape});
    model.outputs.push_back({name, id, DType::kFloat32, shape});
  }
  model.output = model.outputs[0].value;
  return model;
}

std::vector<std::string> OutputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphOutput& output : graph.outputs()) {
    names.push_back(output.name);
  }
  return names;
}

TEST(LossTermsTest, OneLossHasThePlainNames) {
  const v1::TrainingSpec training =
      Training("cross_entropy {} output: 'b' top_k: 2");
  const std::vector<LossTerm> terms = LossTermsOf(training);
  ASSERT_EQ(terms.size(), 1u);
  EXPECT_EQ(terms[0].output, "b");
  EXPECT_EQ(terms[0].suffix, "");
  ModelGraph model = TwoOutputs();
  GraphBuilder builder(&model.graph);
  const size_t nodes = model.graph.nodes().size();
  ASSERT_TRUE(AddLosses(training, model, builder).ok());
  EXPECT_NE(model.graph.FindValue("labels"), nullptr);
  EXPECT_EQ(model.graph.nodes().size(), nodes + 1) << "the loss alone";
}

TEST(LossTermsTest, EachOfSeveralLossesHasItsOwnTarget) {
  const v1::TrainingSpec training = Training(
      "losses { output: 'b' target: 'x' weight: 0.5 l1 {} }"
      "losses { output: 'a' target: 'y' cross_entropy {} } top_k: 2");
  const std::vector<LossTerm> terms = LossTermsOf(training);
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_EQ(terms[0].weight, 0.5);
  EXPECT_EQ(terms[1].weight, 1);
  EXPECT_FALSE(terms[0].leads);
  EXPECT_TRUE(terms[1].leads) << "the first classification";
  EXPECT_TRUE(terms[0].training.has_l1());
  EXPECT_EQ(terms[0].training.top_k(), 0u);
  EXPECT_TRUE(terms[1].training.has_cross_entropy());
  EXPECT_EQ(terms[1].training.top_k(), 2u);

  ModelGraph model = TwoOutputs();
  GraphBuilder builder(&model.graph);
  ASSERT_TRUE(AddLosses(training, model, builder).ok());
  EXPECT_EQ(model.graph.FindValue("target.0")->shape, (Shape{6, 2}));
  EXPECT_EQ(model.graph.FindValue("labels")->shape, (Shape{6}));

  ModelGraph eval = TwoOutputs();
  GraphBuilder eval_builder(&eval.graph);
  const auto sum = AddEvaluations(training, eval, eval_builder);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_THAT(OutputNames(eval.graph),
              ::testing::ElementsAre("loss_sum.0", "loss_sum", "correct",
                                     "top_k_correct"));
}

// Returns the loss of a model whose output is its weight, and its gradient.
reference::NamedNumbers LossOf(const std::string& training,
                               const reference::NamedNumbers& inputs) {
  ModelGraph model;
  GraphBuilder builder(&model.graph);
  const Shape shape = {4, 3};
  const ValueId scores = *builder.Persistent("scores", {DType::kFloat32, shape},
                                             MemoryClass::kWeight);
  model.outputs.push_back({"scores", scores, DType::kFloat32, shape});
  const auto loss = AddLosses(Training(training), model, builder);
  EXPECT_TRUE(loss.ok()) << loss.status();
  if (!loss.ok()) return {};
  const auto gradients = AddGradients(model.graph, *loss, {scores});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  model.graph.AddOutput("loss", *loss);
  model.graph.AddOutput("gradient", (*gradients)[0]);
  EXPECT_TRUE(Verify(model.graph).ok()) << Verify(model.graph);
  reference::NamedNumbers state = {
      {"scores", testing::RandomNumbers(12, 5, -2, 2)}};
  const auto outputs = reference::Run(model.graph, inputs, state);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *outputs : reference::NamedNumbers();
}

TEST(LossTermsTest, AMixedLossIsTheWeightedSumOfTheLossesOfBothTargets) {
  const reference::Numbers own = {2, 0, 1, 2}, other = {1, 2, 2, 0};
  const reference::Numbers a = testing::RandomNumbers(12, 1, 0, 1);
  const reference::Numbers b = testing::RandomNumbers(12, 2, 0, 1);
  for (const char* loss :
       {"cross_entropy {}", "cross_entropy { label_smoothing: 0.1 }",
        "cross_entropy { ignore_label: 2 }",
        "cross_entropy { class_weights: [ 0.5, 2, 1.5 ] label_smoothing: 0.2 "
        "ignore_label: 1 }",
        "negative_log_likelihood { class_weights: [ 1, 2, 3 ] }",
        "mean_squared_error {}", "huber { delta: 0.5 }", "kl_divergence {}",
        "bce_with_logits { positive_weights: 3 }"}) {
    SCOPED_TRACE(loss);
    const bool classes = absl::StrContains(loss, "cross_entropy") ||
                         absl::StrContains(loss, "negative_log_likelihood");
    const std::string name = classes ? "labels" : "target";
    const auto& first = classes ? own : a;
    const auto& second = classes ? other : b;
    auto mixed = LossOf(absl::StrCat(loss, " mix { mixup_alpha: 1 }"),
                        {{name, first},
                         {absl::StrCat("mixed_", name), second},
                         {"mix_lambda", {0.3}}});
    auto one = LossOf(loss, {{name, first}});
    auto two = LossOf(loss, {{name, second}});
    ASSERT_FALSE(mixed.empty() || one.empty() || two.empty());
    for (const char* what : {"loss", "gradient"}) {
      reference::Numbers wanted;
      for (size_t i = 0; i < one[what].size(); ++i) {
        wanted.push_back(0.3 * one[what][i] + 0.7 * two[what][i]);
      }
      EXPECT_LT(testing::Distance(mixed[what], wanted), 1e-12) << what;
    }
  }
}

TEST(LossTermsTest, EqualLossesHaveTargetsOfTheirOwn) {
  const std::string own = "losses { output: 'scores' target: 'x' l1 {} }";
  const reference::Numbers a = testing::RandomNumbers(12, 1, 0, 1);
  const reference::Numbers b = testing::RandomNumbers(12, 2, 0, 1);
  auto both = LossOf(own + own, {{"target", a}, {"target.1", b}});
  auto one = LossOf("l1 {}", {{"target", a}});
  auto two = LossOf("l1 {}", {{"target", b}});
  ASSERT_FALSE(both.empty() || one.empty() || two.empty());
  EXPECT_NEAR(both["loss"][0], one["loss"][0] + two["loss"][0], 1e-12);
  auto mixed =
      LossOf(own + own + " mix { mixup_alpha: 1 }", {{"target", a},
                                                     {"target.1", b},
                                                     {"mixed_target", b},
                                                     {"mixed_target.1", b},
                                                     {"mix_lambda", {0.25}}});
  ASSERT_FALSE(mixed.empty());
  EXPECT_NEAR(mixed["loss"][0], 0.25 * one["loss"][0] + 1.75 * two["loss"][0],
              1e-12);
  // Evaluation has the same inputs.
  ModelGraph eval = TwoOutputs();
  GraphBuilder builder(&eval.graph);
  const auto sum = AddEvaluations(Training("losses { output: 'a' l1 {} }"
                                           "losses { output: 'b' l1 {} }"
                                           "losses { output: 'b' l1 {} }"),
                                  eval, builder);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(eval.graph.FindValue("target")->shape, (Shape{6, 3}));
  EXPECT_EQ(eval.graph.FindValue("target.1")->shape, (Shape{6, 2}));
  EXPECT_EQ(eval.graph.FindValue("target.2")->shape, (Shape{6, 2}));
}

TEST(LossTermsTest, SeveralMixedLossesShareLambda) {
  const v1::TrainingSpec training = Training(
      "losses { output: 'b' target: 'x' weight: 0.5 l1 {} }"
      "losses { output: 'a' target: 'y' cross_entropy {} }"
      "mix { mixup_alpha: 1 }");
  ModelGraph model = TwoOutputs();
  GraphBuilder builder(&model.graph);
  const auto sum = AddLosses(training, model, builder);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(model.graph.FindValue("target.0")->shape, (Shape{6, 2}));
  EXPECT_EQ(model.graph.FindValue("mixed_target.0")->shape, (Shape{6, 2}));
  EXPECT_EQ(model.graph.FindValue("labels")->shape, (Shape{6}));
  EXPECT_EQ(model.graph.FindValue("mixed_labels")->shape, (Shape{6}));
  EXPECT_EQ(model.graph.FindValue(kMixLambdaName)->shape, Shape());
  // Evaluation is never mixed.
  ModelGraph eval = TwoOutputs();
  GraphBuilder eval_builder(&eval.graph);
  ASSERT_TRUE(AddEvaluations(training, eval, eval_builder).ok());
  EXPECT_EQ(eval.graph.FindValue(kMixLambdaName), nullptr);
  EXPECT_EQ(eval.graph.FindValue("mixed_labels"), nullptr);
}

TEST(LossTermsTest, WeightsKeepNamesThatInputsOfLossesHave) {
  const TensorType type{DType::kFloat32, {5}};
  ModelGraph model = TwoOutputs();
  GraphBuilder builder(&model.graph);
  const ValueId weight =
      *builder.Persistent("labels", type, MemoryClass::kWeight);
  ASSERT_TRUE(AddLosses(Training("output: 'a' l1 {} mix { mixup_alpha: 1 }"),
                        model, builder)
                  .ok());
  EXPECT_EQ(model.graph.value(weight).name, "labels");
  EXPECT_NE(model.graph.FindValue("mixed_target"), nullptr);

  ModelGraph taken = TwoOutputs();
  GraphBuilder other(&taken.graph);
  ASSERT_TRUE(
      other.Persistent(kMixLambdaName, type, MemoryClass::kWeight).ok());
  EXPECT_THAT(AddLosses(Training("output: 'a' l1 {} mix { mixup_alpha: 1 }"),
                        taken, other)
                  .status()
                  .message(),
              HasSubstr("the name 'mix_lambda' stands for [5] and for []"));
}

TEST(LossTermsTest, OutputsAreFoundByName) {
  const ModelGraph model = TwoOutputs();
  LossTerm term{.field = "training.losses[1]", .output = "c", .only = false};
  EXPECT_EQ(OutputOf(term, model).status().message(),
            "training.losses[1].output: the model has no output 'c'; it has "
            "'a', 'b'");
  term.output = "";
  EXPECT_THAT(OutputOf(term, model).status().message(),
              HasSubstr("output is missing; the model has 'a', 'b'"));
  term.only = true;
  EXPECT_EQ((*OutputOf(term, model))->name, "a") << "the only loss";
}

TEST(LossTermsTest, ErrorsOfALossNameIt) {
  ModelGraph model = TwoOutputs();
  GraphBuilder builder(&model.graph);
  const auto sum =
      AddLosses(Training("losses { output: 'a' cross_entropy {} }"
                         "losses { output: 'b' huber { delta: 0 } }"),
                model, builder);
  EXPECT_THAT(sum.status().message(),
              HasSubstr("training.losses[1]: huber: delta 0"));
}

}  // namespace
}  // namespace gpupool::engine
