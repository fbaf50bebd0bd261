#include "engine/passes/schedule/recompute.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "engine/model/model_programs.h"
#include "engine/passes/pipeline.h"
#include "engine/passes/schedule/mark_aliases.h"
#include "engine/plan/memory_plan.h"
#include "tests/engine/passes/pass_property.h"

namespace gpupool::engine {
namespace {

using namespace testing;  // NOLINT: the fixtures of this tree

// Returns blocks whose activations take more bytes than everything else.
Graph DeepTraining() {
  v1::ModelSpec spec = ModelFromText("input_shape: [ 16 ]");
  for (int i = 0; i < 6; ++i) {
    const auto add = [&](const char* part) {
      v1::Layer* layer = spec.add_layers();
      layer->set_name(absl::StrCat("block", i, ".", part));
      return layer;
    };
    add("dense")->mutable_dense()->set_units(16);
    add("gelu")->mutable_gelu();
    add("dropout")->mutable_dropout()->set_probability(0.25);
    add("tanh")->mutable_tanh();
  }
  spec.add_layers()->mutable_dense()->set_units(3);
  auto model = BuildTrainingGraph(
      spec, {}, TrainingFromText("cross_entropy {} adam {} batch_size: 64"));
  EXPECT_TRUE(model.ok()) << model.status();
  return std::move(model->graph);
}

Graph WithPasses(const Graph& plain, const RecomputeOptions& recompute) {
  Graph graph = plain;
  const absl::Status status =
      RunPasses(graph, {.recompute = recompute}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return graph;
}

uint64_t LiveBytes(const Graph& graph) {
  const Liveness liveness = AnalyseLiveness(graph);
  std::vector<PlanItem> items;
  for (const Buffer& buffer : liveness.buffers) {
    if (buffer.place == Place::kArena) {
      items.push_back({buffer.bytes, buffer.lifetime});
    }
  }
  return FindPeak(items).bytes;
}

TEST(RecomputeTest, NamedLayersNeedLessAndComputeTheSame) {
  const Graph plain = DeepTraining();
  const Graph kept = WithPasses(plain, {});
  const Graph again = WithPasses(plain, {.layers = {"block1.*", "block2.*"}});
  EXPECT_GT(again.nodes().size(), kept.nodes().size());
  EXPECT_LT(LiveBytes(again), LiveBytes(kept));
  // The numbers must be exactly the same, including dropout.
  ExpectSame(RunOnce(again, 3), RunOnce(kept, 3), 1e-300);
}

TEST(RecomputeTest, ABudgetIsMetWhereItCanBe) {
  const Graph plain = DeepTraining();
  const Graph kept = WithPasses(plain, {});
  const uint64_t budget = LiveBytes(kept) * 3 / 4;
  const Graph again = WithPasses(plain, {.budget_bytes = budget});
  EXPECT_LE(LiveBytes(again), budget);
  ExpectSame(RunOnce(again, 3), RunOnce(kept, 3), 1e-300);
}

TEST(RecomputeTest, ALargeBudgetChangesNothing) {
  const Graph plain = DeepTraining();
  const Graph kept = WithPasses(plain, {});
  const Graph again = WithPasses(plain, {.budget_bytes = uint64_t{1} << 40});
  EXPECT_EQ(Print(again), Print(kept));
}

TEST(RecomputeTest, AnImpossibleBudgetGivesTheLeastThereIs) {
  const Graph plain = DeepTraining();
  const Graph kept = WithPasses(plain, {});
  const Graph again = WithPasses(plain, {.budget_bytes = 1});
  EXPECT_LT(LiveBytes(again), LiveBytes(kept));
}

TEST(RecomputeTest, RungsKeepLessAndComputeTheSame) {
  // The passes before recomputation would join the repeated nodes again.
  PassOptions early{.off = {"recompute", "schedule", "alias"}}, late;
  for (const absl::string_view pass : PassNames()) {
    if (pass != "schedule" && pass != "alias") late.off.emplace_back(pass);
  }
  Graph plain = DeepTraining();
  ASSERT_TRUE(RunPasses(plain, early, nullptr).ok());
  RecomputeLadder ladder(plain, {});
  const auto scheduled = [&](size_t rung) {
    std::optional<Graph> graph = ladder.At(rung);
    EXPECT_TRUE(graph.has_value());
    EXPECT_TRUE(RunPasses(*graph, late, nullptr).ok());
    return *std::move(graph);
  };
  size_t top = 0;
  while (ladder.At(top + 1).has_value()) ++top;
  ASSERT_GT(top, 3u);
  const Graph kept = scheduled(0);
  ASSERT_TRUE(RunPasses(plain, late, nullptr).ok());
  EXPECT_EQ(Print(kept), Print(plain));
  EXPECT_LT(LiveBytes(scheduled(top / 2)), LiveBytes(kept));
  EXPECT_LT(LiveBytes(scheduled(top)), LiveBytes(scheduled(top / 2)));
  ExpectSame(RunOnce(scheduled(top), 3), RunOnce(kept, 3), 1e-300);
}

TEST(RecomputeTest, NamesThatNoLayerHasChangeNothing) {
  const Graph plain = DeepTraining();
  EXPECT_EQ(Print(WithPasses(plain, {.layers = {"conv*", "gel"}})),
            Print(WithPasses(plain, {})));
}

TEST(RecomputeTest, InferenceIsLeftAlone) {
  auto model = BuildInferenceGraph(DigitsModel(), false, 2);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(Print(WithPasses(model->graph, {.layers = {"*"}})),
            Print(WithPasses(model->graph, {})));
}

}  // namespace
}  // namespace gpupool::engine
