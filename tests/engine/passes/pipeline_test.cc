#include "engine/passes/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"
#include "engine/graph/print.h"
#include "engine/model/model_programs.h"
#include "engine/passes/rewrite/rewrite.h"
#include "tests/engine/passes/pass_property.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/random_model.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

constexpr double kTolerance = 1e-9;

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
  ExpectPassesKeepResults(train->graph, seed, kTolerance);
  auto infer = BuildInferenceGraph(spec, seed % 2 == 0, 2);
  ASSERT_TRUE(infer.ok()) << infer.status();
  ExpectPassesKeepResults(infer->graph, seed, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PassesPropertyTest, ::testing::Range(0, 40));

TEST(PipelineTest, EvaluationKeepsItsResults) {
  auto eval = BuildEvalGraph(DigitsModel(), {},
                             TrainingFromText("cross_entropy {} adam {}"), 4);
  ASSERT_TRUE(eval.ok()) << eval.status();
  ExpectPassesKeepResults(eval->graph, 1, kTolerance);
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
  const auto names = PassNames();
  EXPECT_THAT(seen, ElementsAreArray(names.begin(), names.end()));
  EXPECT_THAT(report.ToString(), HasSubstr("fuse: off"));
  EXPECT_EQ(report.passes.size(), names.size());
  for (const absl::string_view name : names) {
    EXPECT_FALSE(PassSummary(name).empty()) << name;
  }
}

TEST(PipelineTest, TheDocsListEveryPassInOrder) {
  std::ifstream page(GPUPOOL_ROOT "/docs/graph_compiler.md");
  ASSERT_TRUE(page.good());
  std::string rows, line;
  while (std::getline(page, line)) {
    if (line.rfind("| `", 0) == 0 && line.rfind("` | ") != std::string::npos) {
      rows += line + "\n";
    }
  }
  std::string wanted;
  for (const absl::string_view name : PassNames()) {
    absl::StrAppend(&wanted, "| `", name, "` | ", PassSummary(name), " |\n");
  }
  EXPECT_THAT(rows, HasSubstr(wanted));
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
  const std::clock_t begin = std::clock();  // processor time, not wall time
  auto model = Train(spec, "adam {}");
  ASSERT_TRUE(model.ok()) << model.status();
  PassReport report;
  ASSERT_TRUE(RunPasses(model->graph, {}, &report).ok());
  // Quadratic algorithms would take minutes.
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 10) << report.ToString();
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

// The weights are folded in float32 and rounded once, right after the fold. No
// request casts a weight.
TEST(PipelineTest, FoldedWeightsAreRoundedWhenTheyAreLoaded) {
  auto model = BuildInferenceGraph(DigitsModel(), false, 1);
  ASSERT_TRUE(model.ok());
  PassOptions options;
  options.compute = DType::kBFloat16;
  ASSERT_TRUE(RunPasses(model->graph, options, nullptr).ok());
  const Graph& graph = model->graph;
  std::vector<std::string> loads;
  for (const Node& node : graph.nodes()) {
    if (node.stage == Stage::kLoad) {
      loads.push_back(std::string(OpName(node.op)));
    } else if (node.op == Op::kCast) {
      EXPECT_FALSE(IsKnownAtLoad(graph.value(node.inputs[0])));
    }
  }
  // The other casts are for layers without a batch norm.
  ASSERT_GE(loads.size(), 3u);
  loads.resize(3);
  EXPECT_THAT(loads, ElementsAre("fold_batch_norm", "cast", "cast"))
      << Print(graph);
}

}  // namespace
}  // namespace gpupool::engine
