#include "engine/model/losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/autodiff/gradient.h"
#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;
using reference::Numbers;
using testing::Distance;
using ::testing::HasSubstr;
using testing::RandomNumbers;
using testing::TrainingFromText;

constexpr double kTolerance = 1e-12;

// A model whose output is its weight, so that the weight's gradient is the
// gradient of the loss.
struct Head {
  Graph graph;
  GraphBuilder builder{&graph};
  ValueId scores;

  explicit Head(const Shape& shape) {
    scores = *builder.Persistent("scores", {DType::kFloat32, shape},
                                 MemoryClass::kWeight);
  }

  absl::StatusOr<NamedNumbers> Run(const NamedNumbers& inputs,
                                   const Numbers& numbers) const {
    NamedNumbers state = {{"scores", numbers}};
    return reference::Run(graph, inputs, state);
  }
};

const Numbers kScores = {0.5, -1.0, 2.0,  0.0,   0.25, -0.5,
                         1.5, 1.0,  -2.0, -0.75, 0.0,  3.0};

NamedNumbers Labels() { return {{"labels", {2, 0, 1, 2}}}; }
NamedNumbers Targets() {
  return {{"target", {0, 1, 0.5, 1, 0.25, 0, 0.5, 0, 1, 0.75, 1, 0}}};
}
NamedNumbers Shares() {
  return {{"target", {0.2, 0.3, 0.5, 1, 0, 0, 0.25, 0.25, 0.5, 0, 0.4, 0.6}}};
}

struct Case {
  const char* training;
  NamedNumbers inputs;
  double loss;
  Numbers gradient;
};

// Expected values, as tests/conformance/pytorch/losses.py prints them.
std::vector<Case> WeightedCases() {
  return {
      {"cross_entropy { class_weights: [ 0.5, 2, 1.5 ] }",
       Labels(),
       0.5425824455185596,
       {0.047806470583646364, 0.010667065437460212, -0.058473536021106574,
        -0.05945870956160275, 0.04038308901469685, 0.019075620546905894,
        0.22217274590093952, -0.22888178149489954, 0.00670903559396001,
        0.005975870603581069, 0.012650918167056317, -0.018626788770637392}},
      {"cross_entropy { class_weights: [ 0.5, 2, 1.5 ] label_smoothing: 0.1 "
       "ignore_label: 2 }",
       Labels(),
       1.0753587546823635,
       {0, 0, 0, -0.1059440212081137, 0.07698326180438858, 0.02896075940372513,
        0.4658207062826647, -0.4600885886458196, -0.005732117636845044, 0, 0,
        0}},
      {"negative_log_likelihood { class_weights: [ 0.5, 2, 1.5 ] }",
       Labels(),
       -1.7272727272727273,
       {0, 0, -3. / 11, -1. / 11, 0, 0, 0, -4. / 11, 0, 0, 0, -3. / 11}},
      {"negative_log_likelihood { class_weights: [ 0.5, 2, 1.5 ] "
       "ignore_label: 2 }",
       Labels(),
       -0.8,
       {0, 0, 0, -0.2, 0, 0, 0, -0.8, 0, 0, 0, 0}},
      {"bce_with_logits { positive_weights: [ 3, 0.5, 2 ] }",
       Targets(),
       1.569654007122354,
       {0.05187161093348788, -0.030460774109583536, 0.02676630141390196, -0.125,
        0.03057536985625611, 0.03146172239984545, 0.011262412698940608,
        0.06092154821916707, -0.14679951299631375, -0.12066222899487354,
        -0.020833333333333332, 0.07938117723520279}},
      {"bce_with_logits { positive_weights: 3 }",
       Targets(),
       2.200185367471034,
       {0.05187161093348788, -0.18276464465750122, 0.02179951299631372, -0.125,
        0.007772062610724754, 0.03146172239984545, 0.011262412698940608,
        0.06092154821916707, -0.22019926949447063, -0.12066222899487354, -0.125,
        0.07938117723520279}},
  };
}

std::vector<Case> PlainCases() {
  return {
      {"cross_entropy {}",
       Labels(),
       0.5915504618800739,
       {0.04382259803500917, 0.009778143317671862, -0.05360074135268103,
        -0.16351145129440756, 0.11105349479041635, 0.05245795650399121,
        0.15274376280689592, -0.15735622477774341, 0.0046124619708475065,
        0.00547788138661598, 0.011596674986468292, -0.017074556373084276}},
      {"cross_entropy { label_smoothing: 0.1 ignore_label: 2 }",
       Labels(),
       1.0729073587967393,
       {0, 0, 0, -0.2936895692554818, 0.20544032291416603, 0.08824924634131576,
        0.28882085894712517, -0.2813791162221535, -0.007441742724971653, 0, 0,
        0}},
      {"bce_with_logits {}",
       Targets(),
       1.202303231846061,
       {0.05187161093348788, -0.06092154821916707, 0.031733089831490195,
        -0.041666666666666664, 0.02601470840714984, 0.03146172239984545,
        0.02646453968280364, 0.06092154821916707, -0.07339975649815687,
        -0.03576489159794941, -0.041666666666666664, 0.07938117723520279}},
      {"mean_squared_error {}",
       Targets(),
       2.5833333333333335,
       {1. / 12, -1. / 3, 0.25, -1. / 6, 0, -1. / 12, 1. / 6, 1. / 6, -0.5,
        -0.25, -1. / 6, 0.5}},
      {"l1 {}",
       Targets(),
       4. / 3,
       {1. / 12, -1. / 12, 1. / 12, -1. / 12, 0, -1. / 12, 1. / 12, 1. / 12,
        -1. / 12, -1. / 12, -1. / 12, 1. / 12}},
      {"huber { delta: 0.5 }",
       Targets(),
       0.5520833333333334,
       {1. / 24, -1. / 24, 1. / 24, -1. / 24, 0, -1. / 24, 1. / 24, 1. / 24,
        -1. / 24, -1. / 24, -1. / 24, 1. / 24}},
      {"negative_log_likelihood {}",
       Labels(),
       -1.5,
       {0, 0, -0.25, -0.25, 0, 0, 0, -0.25, 0, 0, 0, -0.25}},
      {"negative_log_likelihood { ignore_label: 2 }",
       Labels(),
       -0.5,
       {0, 0, 0, -0.5, 0, 0, 0, -0.5, 0, 0, 0, 0}},
      {"kl_divergence {}",
       Shares(),
       -1.2418463629784369,
       {-0.05, -0.075, -0.125, -0.25, 0, 0, -0.0625, -0.0625, -0.125, 0, -0.1,
        -0.15}},
  };
}

std::vector<Case> Cases() {
  std::vector<Case> cases = PlainCases();
  for (Case& c : WeightedCases()) cases.push_back(std::move(c));
  return cases;
}

TEST(LossesTest, LossesAndGradientsAreThoseOfPytorch) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.training);
    Head head({4, 3});
    auto loss =
        AddLoss(TrainingFromText(c.training), head.scores, head.builder);
    ASSERT_TRUE(loss.ok()) << loss.status();
    auto gradients = AddGradients(head.graph, *loss, {head.scores});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    head.graph.AddOutput("loss", *loss);
    head.graph.AddOutput("gradient", (*gradients)[0]);
    ASSERT_TRUE(Verify(head.graph).ok()) << Verify(head.graph);
    auto outputs = head.Run(c.inputs, kScores);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_NEAR((*outputs)["loss"][0], c.loss, kTolerance);
    EXPECT_LT(Distance((*outputs)["gradient"], c.gradient), kTolerance);
  }
}

TEST(LossesTest, GradientsMatchDifferences) {
  constexpr double kStep = 1e-6;
  for (const Case& c : Cases()) {
    for (uint64_t seed : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(c.training, " seed ", seed));
      Head head({4, 3});
      auto loss =
          AddLoss(TrainingFromText(c.training), head.scores, head.builder);
      ASSERT_TRUE(loss.ok());
      auto gradients = AddGradients(head.graph, *loss, {head.scores});
      ASSERT_TRUE(gradients.ok());
      head.graph.AddOutput("loss", *loss);
      head.graph.AddOutput("gradient", (*gradients)[0]);
      Numbers at = RandomNumbers(12, seed, -2, 2);
      const Numbers computed = head.Run(c.inputs, at)->at("gradient");
      Numbers differences;
      for (double& x : at) {
        const double here = x;
        x = here + kStep;
        const double above = head.Run(c.inputs, at)->at("loss")[0];
        x = here - kStep;
        const double below = head.Run(c.inputs, at)->at("loss")[0];
        x = here;
        differences.push_back((above - below) / (2 * kStep));
      }
      EXPECT_LT(Distance(computed, differences), 1e-7);
    }
  }
}

TEST(LossesTest, BinaryCrossEntropyStaysExactForLargeScores) {
  Head head({1, 2});
  auto loss = AddLoss(TrainingFromText("bce_with_logits {}"), head.scores,
                      head.builder);
  ASSERT_TRUE(loss.ok());
  head.graph.AddOutput("loss", *loss);
  auto outputs = head.Run({{"target", {1, 0}}}, {40, -40});
  EXPECT_NEAR((*outputs)["loss"][0] / std::exp(-40), 1, 1e-9);
}

TEST(LossesTest, SequencesOfScoresAreRows) {
  Head flat({4, 3}), sequences({2, 2, 3});
  const auto training = TrainingFromText(
      "cross_entropy { ignore_label: 0 label_smoothing: 0.2 }");
  for (Head* head : {&flat, &sequences}) {
    auto loss = AddLoss(training, head->scores, head->builder);
    ASSERT_TRUE(loss.ok()) << loss.status();
    head->graph.AddOutput("loss", *loss);
  }
  EXPECT_EQ(sequences.graph.FindValue("labels")->shape, Shape({2, 2}));
  EXPECT_DOUBLE_EQ(flat.Run(Labels(), kScores)->at("loss")[0],
                   sequences.Run(Labels(), kScores)->at("loss")[0]);
}

TEST(LossesTest, WhereEveryLabelIsIgnoredTheLossIsZero) {
  for (const char* training :
       {"cross_entropy { ignore_label: 1 }",
        "cross_entropy { class_weights: [ 1, 0, 1 ] label_smoothing: 0.1 }",
        "cross_entropy { ignore_label: 1 class_weights: [ 1, 2, 3 ] }",
        "negative_log_likelihood { ignore_label: 1 }",
        "negative_log_likelihood { class_weights: [ 1, 0, 1 ] }"}) {
    Head head({2, 3});
    auto loss = AddLoss(TrainingFromText(training), head.scores, head.builder);
    ASSERT_TRUE(loss.ok());
    auto gradients = AddGradients(head.graph, *loss, {head.scores});
    ASSERT_TRUE(gradients.ok());
    head.graph.AddOutput("loss", *loss);
    head.graph.AddOutput("gradient", (*gradients)[0]);
    auto outputs = head.Run({{"labels", {1, 1}}}, RandomNumbers(6, 3));
    EXPECT_EQ((*outputs)["loss"][0], 0);
    EXPECT_EQ((*outputs)["gradient"], Numbers(6, 0.0));
  }
}

// Scores [2, 3, 2, 2] and labels [2, 2, 2] of two small images, of which 9
// counts nowhere.
Numbers DenseScores() {
  Numbers scores;
  for (int i = 0; i < 24; ++i) scores.push_back(2 * std::sin(1.7 * i));
  return scores;
}
NamedNumbers DenseLabels() { return {{"labels", {0, 2, 1, 9, 1, 1, 9, 0}}}; }

// torch.nn.functional.cross_entropy of these, with ignore_index=9, and its
// gradient.
std::vector<Case> DenseCases() {
  return {
      {"cross_entropy { ignore_label: 9 }",
       DenseLabels(),
       1.6404829572813384,
       {-0.14867129540603044,
        0.08401400023273149,
        0.10070925932557884,
        0,
        0.04834395919081414,
        0.057089947977255674,
        -0.12525467163326343,
        0,
        0.10032733621521629,
        -0.14110394820998715,
        0.02454541230768458,
        0,
        0.0765972269804682,
        0.10504129404945872,
        0,
        -0.14212472078890973,
        -0.10647576548029375,
        -0.12620511990527533,
        0,
        0.056200339699101834,
        0.029878538499825552,
        0.02116382585581664,
        0,
        0.08592438108980789}},
      {"cross_entropy { ignore_label: 9 class_weights: [ 0.5, 2, 1.5 ] "
       "label_smoothing: 0.2 }",
       DenseLabels(),
       1.4217875473712223,
       {-0.04251198215185747,
        0.08305763161349457,
        0.12877769071919407,
        0,
        0.007063823932932146,
        0.04341861280782548,
        -0.1493551751716726,
        0,
        0.035448158218925316,
        -0.12647624442132005,
        0.020577484452478506,
        0,
        0.09700654221740124,
        0.1344857835318358,
        0,
        -0.039431241155565365,
        -0.12461120471128902,
        -0.150607530541853,
        0,
        0.010760944172126355,
        0.027604662493887787,
        0.016121747010017222,
        0,
        0.02867029698343901}},
  };
}

TEST(LossesTest, DenseScoresHaveTheirClassesInTheSecondAxis) {
  for (const Case& c : DenseCases()) {
    SCOPED_TRACE(c.training);
    Head head({2, 3, 2, 2});
    auto loss =
        AddLoss(TrainingFromText(c.training), head.scores, head.builder);
    ASSERT_TRUE(loss.ok()) << loss.status();
    auto gradients = AddGradients(head.graph, *loss, {head.scores});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    head.graph.AddOutput("loss", *loss);
    head.graph.AddOutput("gradient", (*gradients)[0]);
    EXPECT_EQ(head.graph.FindValue("labels")->shape, Shape({2, 2, 2}));
    auto outputs = head.Run(c.inputs, DenseScores());
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_NEAR((*outputs)["loss"][0], c.loss, kTolerance);
    EXPECT_LT(Distance((*outputs)["gradient"], c.gradient), kTolerance);
  }
}

TEST(LossesTest, OutputsThatDoNotGoWithTheLossAreRefused) {
  Head image({2, 3, 4, 4, 1, 1});
  EXPECT_THAT(
      AddLoss(TrainingFromText("cross_entropy {}"), image.scores, image.builder)
          .status()
          .message(),
      HasSubstr("cross_entropy needs one number per class, but the "
                "model's output is [3, 4, 4, 1, 1]"));
  EXPECT_THAT(AddLoss({}, image.scores, image.builder).status().message(),
              HasSubstr("no loss"));
  Head head({2, 3});
  EXPECT_THAT(
      AddLoss(TrainingFromText("huber { delta: 0 }"), head.scores, head.builder)
          .status()
          .message(),
      HasSubstr("delta 0 must be above 0"));
}

// Evaluates the first `rows` rows.
NamedNumbers Evaluate(const std::string& training, const Shape& shape,
                      NamedNumbers inputs, double rows) {
  Head head(shape);
  const absl::Status added =
      AddEvaluation(TrainingFromText(training), head.scores, head.builder);
  EXPECT_TRUE(added.ok()) << added;
  EXPECT_TRUE(Verify(head.graph).ok()) << Verify(head.graph);
  inputs["row_count"] = {rows};
  auto outputs = head.Run(inputs, shape.rank() == 4 ? DenseScores() : kScores);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *outputs : NamedNumbers();
}

TEST(EvaluationTest, SumsOfAllRowsAreTheMeanTimesTheRows) {
  for (const Case& c : Cases()) {
    NamedNumbers outputs = Evaluate(c.training, {4, 3}, c.inputs, 4);
    double divisor = outputs.count("counted") > 0 ? outputs["counted"][0] : 4;
    if (outputs.count("weight_sum") > 0) divisor = outputs["weight_sum"][0];
    EXPECT_NEAR(outputs["loss_sum"][0] / divisor, c.loss, kTolerance)
        << c.training;
  }
}

TEST(EvaluationTest, RowsBehindTheCountDoNotCount) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.training);
    NamedNumbers three = Evaluate(c.training, {4, 3}, c.inputs, 3);
    NamedNumbers inputs = c.inputs;
    // Padding rows are ignored, even if they have a label that no class has.
    for (auto& [name, numbers] : inputs) {
      const size_t row = numbers.size() / 4;
      for (size_t i = 3 * row; i < 4 * row; ++i) numbers[i] = 0;
    }
    NamedNumbers padded = Evaluate(c.training, {4, 3}, inputs, 3);
    for (const auto& [name, numbers] : three) {
      EXPECT_EQ(numbers, padded[name]) << name;
    }
  }
}

TEST(EvaluationTest, CountsRightAnswersAmongTheFirstAndTheFirstK) {
  // Ranks of the labels 2, 0, 1, 2 within their rows: 1, 2, 2, 1.
  NamedNumbers outputs =
      Evaluate("cross_entropy {} top_k: 2", {4, 3}, Labels(), 4);
  EXPECT_EQ(outputs["correct"], Numbers({2}));
  EXPECT_EQ(outputs["top_k_correct"], Numbers({4}));
  EXPECT_EQ(outputs.count("counted"), 0u);
  outputs = Evaluate("cross_entropy { ignore_label: 1 } top_k: 2", {4, 3},
                     Labels(), 3);
  EXPECT_EQ(outputs["correct"], Numbers({1}));
  EXPECT_EQ(outputs["top_k_correct"], Numbers({2}));
  EXPECT_EQ(outputs["counted"], Numbers({2}));
}

TEST(EvaluationTest, SequencesCountEveryPlace) {
  NamedNumbers outputs =
      Evaluate("negative_log_likelihood {}", {2, 2, 3}, Labels(), 1);
  EXPECT_EQ(outputs["counted"], Numbers({2}));
  EXPECT_EQ(outputs["correct"], Numbers({1}));
  EXPECT_DOUBLE_EQ(outputs["loss_sum"][0], -2.0);
}

TEST(EvaluationTest, DenseScoresCountEveryPosition) {
  const std::string training = "cross_entropy { ignore_label: 9 } top_k: 3";
  // In the first image the greatest scores are those of classes 2, 0 and 0.
  NamedNumbers outputs = Evaluate(training, {2, 3, 2, 2}, DenseLabels(), 1);
  EXPECT_EQ(outputs["counted"], Numbers({3}));
  EXPECT_EQ(outputs["correct"], Numbers({0}));
  EXPECT_EQ(outputs["top_k_correct"], Numbers({3}));
  outputs = Evaluate(training, {2, 3, 2, 2}, DenseLabels(), 2);
  EXPECT_EQ(outputs["counted"], Numbers({6}));
  EXPECT_NEAR(outputs["loss_sum"][0] / 6, 1.6404829572813384, kTolerance);
}

TEST(EvaluationTest, MetricsGetAnswersAndScores) {
  NamedNumbers outputs =
      Evaluate("cross_entropy {} metrics: ['f1', 'auc']", {4, 3}, Labels(), 4);
  EXPECT_EQ(outputs["answers"], Numbers({2, 1, 0, 2}));
  EXPECT_EQ(outputs["scores"], kScores);
  outputs =
      Evaluate("cross_entropy {} metrics: 'perplexity'", {4, 3}, Labels(), 4);
  EXPECT_EQ(outputs.count("answers") + outputs.count("scores"), 0u);
  outputs = Evaluate("l1 {} metrics: 'mae'", {4, 3}, Targets(), 4);
  EXPECT_EQ(outputs["outputs"], kScores);
}

TEST(EvaluationTest, TopKNeedsClasses) {
  Head head({4, 3});
  EXPECT_THAT(AddEvaluation(TrainingFromText("l1 {} top_k: 2"), head.scores,
                            head.builder)
                  .message(),
              HasSubstr("l1 knows no classes"));
  EXPECT_THAT(AddEvaluation(TrainingFromText("cross_entropy {} top_k: 4"),
                            head.scores, head.builder)
                  .message(),
              HasSubstr("top_k is 4"));
}

}  // namespace
}  // namespace gpupool::engine
