#include "engine/train/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/plan/check_plan.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class ProgramsTest : public RunFixture {
 protected:
  static std::shared_ptr<const ModelSource> Source(const v1::ModelSpec& model) {
    auto source = ModelSource::Open(model, "");
    EXPECT_TRUE(source.ok()) << source.status();
    return *source;
  }

  static v1::JobSpec Job() {
    v1::JobSpec spec;
    spec.mutable_model()->add_input_shape(4);
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(8);
    spec.mutable_model()->add_layers()->mutable_relu();
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(3);
    spec.mutable_training()->mutable_cross_entropy();
    spec.mutable_training()->mutable_adam();
    spec.mutable_training()->set_batch_size(16);
    spec.mutable_training()->set_epochs(1);
    return spec;
  }

  // Returns a hundred rows of four numbers, in three classes.
  DataFacts Data() { return {100, {4}, {.whole = true, .maximum = 2}}; }
};

TEST_F(ProgramsTest, TrainAndEvalShareTheirWeights) {
  v1::JobSpec spec = Job();
  spec.mutable_data()->mutable_held_out()->set_last(5);
  auto programs =
      CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_TRUE(programs->eval.has_value());
  EXPECT_EQ(programs->eval_batch, 5) << "no larger than what is held out";
  EXPECT_EQ(programs->parameters, 4u * 8 + 8 + 8 * 3 + 3);
  // Four weights with two moments each.
  EXPECT_EQ(programs->layout.entries().size(), 12u);
  const PlannedBytes bytes = BytesOf(*programs);
  EXPECT_EQ(bytes.weights, programs->layout.bytes().model);
  EXPECT_EQ(bytes.optimizer, 2 * bytes.weights);
  EXPECT_GE(bytes.peak,
            bytes.weights + bytes.optimizer + ArenaBytesOf(*programs));
}

TEST_F(ProgramsTest, WithoutHeldOutRowsThereIsNoEvalProgram) {
  auto programs =
      CompileTraining(*Source(Job().model()), Job(), Data(), {&backend_});
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_FALSE(programs->eval.has_value());
}

TEST_F(ProgramsTest, StepsOfSeveralBatchesHaveAProgramMore) {
  v1::JobSpec spec = Job();
  auto one = CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  spec.mutable_training()->set_accumulate_batches(3);
  auto three =
      CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  ASSERT_TRUE(one.ok() && three.ok()) << three.status();
  EXPECT_FALSE(one->accumulate.has_value());
  ASSERT_TRUE(three->accumulate.has_value());
  EXPECT_GT(StepFlopsOf(*three), 2 * StepFlopsOf(*one));
  EXPECT_GT(BytesOf(*three).optimizer, BytesOf(*one).optimizer);
}

TEST_F(ProgramsTest, AShorterLastStepHasAProgramOfItsRows) {
  v1::JobSpec spec = Job();
  auto dropped =
      CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  spec.mutable_data()->set_drop_last(false);
  auto kept = CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  ASSERT_TRUE(dropped.ok() && kept.ok()) << kept.status();
  EXPECT_FALSE(dropped->short_step.has_value());
  ASSERT_TRUE(kept->short_step.has_value());
  EXPECT_EQ(kept->length.total_steps, dropped->length.total_steps + 1);
  const Value* labels = kept->short_step->graph().FindValue("labels");
  ASSERT_NE(labels, nullptr);
  EXPECT_EQ(labels->shape[0], 4) << "100 rows in batches of 16";
  EXPECT_EQ(kept->layout.bytes().model, dropped->layout.bytes().model);
  EXPECT_EQ(kept->layout.bytes().optimizer, dropped->layout.bytes().optimizer);
  EXPECT_EQ(StepFlopsOf(*kept), StepFlopsOf(*dropped));
}

// Returns a job with over a megabyte of weights: two buckets.
v1::JobSpec WideJob(uint32_t devices) {
  v1::JobSpec spec;
  spec.mutable_model()->add_input_shape(4);
  for (const int units : {600, 600, 600, 3}) {
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(units);
    spec.mutable_model()->add_layers()->mutable_relu();
  }
  spec.mutable_training()->mutable_cross_entropy();
  spec.mutable_training()->mutable_adam();
  spec.mutable_training()->set_batch_size(16 * devices);
  spec.mutable_training()->set_epochs(1);
  spec.set_devices(devices);
  return spec;
}

std::vector<int> PositionsOf(Op op, const Graph& graph) {
  std::vector<int> positions;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op == op) positions.push_back(static_cast<int>(i));
  }
  return positions;
}

TEST_F(ProgramsTest, SumsOverRanksAreSpreadOverBackwardAndAwaitedBehindIt) {
  const v1::JobSpec spec = WideJob(2);
  auto programs =
      CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const Graph& graph = programs->train.graph();
  const GraphIndex index(graph);
  const std::vector<int> starts = PositionsOf(Op::kAllReduceStart, graph);
  const std::vector<int> waits = PositionsOf(Op::kAllReduceWait, graph);
  ASSERT_EQ(starts.size(), 2u);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_GT(waits.front(), starts.back());
  const auto last_gradient = [&](int start) {
    int last = -1;
    for (const ValueId id : graph.nodes()[static_cast<size_t>(start)].inputs) {
      last = std::max(last, index.producer(id));
    }
    return last;
  };
  for (const int start : starts) {
    EXPECT_EQ(start, last_gradient(start) + 1);
    const Node& node = graph.nodes()[static_cast<size_t>(start)];
    EXPECT_EQ(graph.value(node.outputs[0]).alias.kind, AliasKind::kNone);
  }
  // Products of backward must run between the start and the wait of the first
  // sum.
  int products = 0;
  for (int i = starts[0]; i < starts[1]; ++i) {
    products += graph.nodes()[static_cast<size_t>(i)].op == Op::kMatMul;
  }
  EXPECT_GE(products, 2);
}

TEST_F(ProgramsTest, NothingElseHasTheBytesOfASumThatIsOnItsWay) {
  const v1::JobSpec spec = WideJob(2);
  auto programs =
      CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const Program& train = programs->train;
  const auto& buffers = train.liveness().buffers;
  std::vector<PlanItem> items;
  MemoryPlan plan{.arena_bytes = train.bytes().arena};
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].place != Place::kArena) continue;
    PlanItem item{buffers[i].bytes, buffers[i].lifetime};
    for (const int start : PositionsOf(Op::kAllReduceStart, train.graph())) {
      const Node& node = train.graph().nodes()[static_cast<size_t>(start)];
      if (node.outputs[0] != buffers[i].root) continue;
      const GraphIndex index(train.graph());
      // Computed here again, and not taken from the liveness that is tested.
      item.lifetime = {start, index.readers(node.outputs[0]).back()};
      EXPECT_GT(item.lifetime.last, start);
    }
    items.push_back(item);
    plan.offsets.push_back(train.buffer_offset(static_cast<int>(i)));
  }
  const absl::Status status = CheckPlan(items, plan);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ProgramsTest, EachDeviceTakesItsPartOfTheBatch) {
  v1::JobSpec one = WideJob(1), four = WideJob(4);
  for (v1::JobSpec* spec : {&one, &four}) {
    spec->mutable_data()->mutable_held_out()->set_last(10);
  }
  auto alone = CompileTraining(*Source(one.model()), one, Data(), {&backend_});
  auto part = CompileTraining(*Source(four.model()), four, Data(), {&backend_});
  ASSERT_TRUE(alone.ok() && part.ok()) << part.status();
  EXPECT_EQ(part->train.graph().FindValue(part->fed[0].name)->shape,
            (Shape{16, 4}));
  EXPECT_EQ(part->eval_batch, 3) << "ten rows on four devices";
  EXPECT_EQ(BytesOf(*part).weights, BytesOf(*alone).weights);
  EXPECT_EQ(BytesOf(*part).optimizer, BytesOf(*alone).optimizer);
}

TEST_F(ProgramsTest, ErrorsNameTheLayer) {
  v1::JobSpec spec = Job();
  spec.mutable_model()->mutable_layers(2)->mutable_dense()->set_units(0);
  auto programs =
      CompileTraining(*Source(spec.model()), spec, Data(), {&backend_});
  EXPECT_EQ(programs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(programs.status().message(), HasSubstr("dense_2"));
}

}  // namespace
}  // namespace gpupool::engine
