#include "engine/passes/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/graph/print.h"
#include "engine/import/model_programs.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/random_model.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

constexpr double kTolerance = 1e-9;

struct Result {
  reference::NamedNumbers outputs;
  reference::NamedNumbers state;
};

Result RunOnce(const Graph& graph, uint64_t seed) {
  Result result;
  result.state = RandomPersistents(graph, seed);
  auto outputs = reference::Run(graph, RandomInputs(graph, seed), result.state);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (outputs.ok()) result.outputs = *outputs;
  return result;
}

void ExpectSame(const Result& a, const Result& b) {
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (const auto& [name, numbers] : b.outputs) {
    EXPECT_LT(Distance(a.outputs.at(name), numbers), kTolerance) << name;
  }
  for (const auto& [name, numbers] : b.state) {
    EXPECT_LT(Distance(a.state.at(name), numbers), kTolerance) << name;
  }
}

// The plain graph against: all passes, each pass alone off, each alone on.
void ExpectPassesKeepResults(const Graph& plain, uint64_t seed) {
  const Result expected = RunOnce(plain, seed);
  const auto names = PassNames();
  std::vector<PassOptions> variants(1);
  for (size_t i = 0; i < names.size(); ++i) {
    PassOptions only;
    for (absl::string_view name : names) {
      if (name != names[i]) only.off.push_back(std::string(name));
    }
    variants.push_back(only);
    PassOptions without;
    without.off.push_back(std::string(names[i]));
    variants.push_back(without);
  }
  for (const PassOptions& options : variants) {
    Graph graph = plain;
    PassReport report;
    const absl::Status status = RunPasses(graph, options, &report);
    ASSERT_TRUE(status.ok()) << status << "\n" << Print(plain);
    ExpectSame(RunOnce(graph, seed), expected);
    if (::testing::Test::HasFailure()) {
      FAIL() << report.ToString() << Print(graph);
    }
  }
}

absl::StatusOr<ModelGraph> Train(const v1::ModelSpec& spec,
                                 const std::string& optimizer) {
  return BuildTrainingGraph(spec, {},
                            TrainingFromText(absl::StrCat(
                                "cross_entropy {} batch_size: 3 ", optimizer)));
}

class PassesPropertyTest : public ::testing::TestWithParam<int> {};

TEST_P(PassesPropertyTest, RandomProgramsKeepTheirResults) {
  const auto seed = static_cast<uint64_t>(GetParam());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  const v1::ModelSpec spec = RandomModel(seed);
  const char* optimizers[] = {"adam {}", "adam {} clip_gradient_norm: 0.1",
                              "sgd { learning_rate: 0.1 momentum: 0.9 }"};
  auto train = Train(spec, optimizers[seed % 3]);
  ASSERT_TRUE(train.ok()) << train.status() << spec.DebugString();
  ExpectPassesKeepResults(train->graph, seed);
  auto infer = BuildInferenceGraph(spec, seed % 2 == 0, 2);
  ASSERT_TRUE(infer.ok()) << infer.status();
  ExpectPassesKeepResults(infer->graph, seed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PassesPropertyTest, ::testing::Range(0, 40));

TEST(PipelineTest, EvaluationKeepsItsResults) {
  auto eval = BuildEvalGraph(DigitsModel(), {},
                             TrainingFromText("cross_entropy {} adam {}"), 4);
  ASSERT_TRUE(eval.ok()) << eval.status();
  ExpectPassesKeepResults(eval->graph, 1);
}

TEST(PipelineTest, RefusesToSwitchOffAPassThatDoesNotExist) {
  Graph graph;
  const absl::Status status = RunPasses(graph, {.off = {"fuze"}}, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("fuze"));
}

TEST(PipelineTest, ReportsAndShowsEveryPass) {
  auto model = BuildInferenceGraph(DigitsModel(), false, 1);
  ASSERT_TRUE(model.ok());
  std::vector<std::string> seen;
  PassOptions options{.off = {"fuse"}};
  options.observer = [&seen](absl::string_view pass, const Graph&) {
    seen.push_back(std::string(pass));
  };
  PassReport report;
  ASSERT_TRUE(RunPasses(model->graph, options, &report).ok());
  EXPECT_THAT(seen, ElementsAre("fold", "cse", "fold_batch_norm", "fuse",
                                "layout", "dce", "schedule", "alias"));
  EXPECT_THAT(report.ToString(), HasSubstr("fuse: off"));
  EXPECT_EQ(report.passes.size(), 8u);
}

TEST(PipelineTest, LongModelsTakeModestTime) {
  v1::ModelSpec spec;
  spec.add_input_shape(2);
  while (spec.layers_size() < kMaxLayers / 4) {
    spec.add_layers()->mutable_dense()->set_units(2);
    spec.add_layers()->mutable_relu();
    spec.add_layers()->mutable_dropout()->set_probability(0.1);
    spec.add_layers()->mutable_add()->set_from("dense_0");
  }
  const absl::Time begin = absl::Now();
  auto model = Train(spec, "adam {}");
  ASSERT_TRUE(model.ok()) << model.status();
  PassReport report;
  ASSERT_TRUE(RunPasses(model->graph, {}, &report).ok());
  // Quadratic algorithms would take minutes.
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10)) << report.ToString();
}

TEST(PipelineTest, RefusesABrokenGraph) {
  auto model = BuildInferenceGraph(DigitsModel(), false, 1);
  ASSERT_TRUE(model.ok());
  model->graph.mutable_nodes().pop_back();
  EXPECT_EQ(RunPasses(model->graph, {}, nullptr).code(),
            absl::StatusCode::kInternal);
}

TEST(PipelineTest, DigitsInferenceBecomesAFewFusedNodes) {
  auto model = BuildInferenceGraph(DigitsModel(), false, 1);
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE(RunPasses(model->graph, {}, nullptr).ok());
  std::vector<std::string> ops;
  for (const Node& node : model->graph.nodes()) {
    ops.push_back(std::string(OpName(node.op)));
  }
  EXPECT_THAT(ops, ElementsAre("fold_batch_norm", "layout_convert", "conv2d",
                               "max_pool", "layout_convert", "reshape",
                               "matmul", "matmul"))
      << Print(model->graph);
}

}  // namespace
}  // namespace gpupool::engine
