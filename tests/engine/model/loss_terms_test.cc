#include "engine/model/loss_terms.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
