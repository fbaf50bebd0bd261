#include "engine/runtime/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/graph/builder.h"
#include "engine/plan/memory_plan.h"
#include "tests/engine/runtime/model_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// A kernel that does nothing, with the given workspace and residents.
class FakeKernel : public Kernel {
 public:
  FakeKernel(uint64_t workspace, uint64_t resident)
      : workspace_(workspace), resident_(resident) {}
  uint64_t workspace_bytes() const override { return workspace_; }
  uint64_t resident_bytes() const override { return resident_; }
  absl::Status Bind(const KernelBuffers&) override { return absl::OkStatus(); }
  absl::Status Run() override { return absl::OkStatus(); }

 private:
  uint64_t workspace_, resident_;
};

class FakeBackend : public DeviceBackend {
 public:
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override {
    if (request.node.op == refused) {
      return absl::UnimplementedError("not on this device");
    }
    stable.push_back(request.stable_inputs);
    return std::make_unique<FakeKernel>(workspace, resident);
  }

  uint64_t workspace = 0;
  uint64_t resident = 0;
  Op refused = Op::kFoldBatchNorm;
  std::vector<std::vector<bool>> stable;
};

class ProgramTest : public ::testing::Test {
 protected:
  // Returns the graph relu(x) + w, of 100 numbers.
  Graph SmallGraph(bool updated) {
    Graph graph;
    GraphBuilder builder(&graph);
    builder.SetSource("layer_a", 0);
    const TensorType type{DType::kFloat32, {100}};
    const ValueId x = *builder.Input("x", type);
    const ValueId w = *builder.Persistent("w", type, MemoryClass::kWeight);
    const ValueId a = *builder.EmitOne(Op::kRelu, {x});
    const ValueId y = *builder.EmitOne(Op::kAdd, {a, w});
    if (updated) {
      EXPECT_TRUE(builder.Update(y, w).ok());
    }
    graph.AddOutput("y", y);
    return graph;
  }

  FakeBackend backend_;
};

TEST_F(ProgramTest, CountsWorkspaceAndResidentBytes) {
  backend_.workspace = 1000;
  backend_.resident = 10;
  const auto program = Program::Compile(SmallGraph(false), &backend_);
  ASSERT_TRUE(program.ok());
  const ProgramBytes& bytes = program->bytes();
  EXPECT_EQ(bytes.workspace, AlignUp(1000));
  EXPECT_EQ(ResidentBytes({bytes}), 2 * kAlignmentBytes);
  EXPECT_EQ(bytes.activations, 2 * AlignUp(400));
  EXPECT_EQ(bytes.arena, AlignUp(1000) + 2 * AlignUp(400));
  EXPECT_EQ(bytes.gradients, 0u);
}

TEST_F(ProgramTest, OnlyUnchangedPersistentValuesAreStable) {
  ASSERT_TRUE(Program::Compile(SmallGraph(false), &backend_).ok());
  EXPECT_EQ(backend_.stable[1], (std::vector<bool>{false, true}));
  backend_.stable.clear();
  ASSERT_TRUE(Program::Compile(SmallGraph(true), &backend_).ok());
  EXPECT_EQ(backend_.stable[1], (std::vector<bool>{false, false}));
}

TEST_F(ProgramTest, ViewsAreNotLaunched) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId x = *builder.Input("x", {DType::kFloat32, {4, 2}});
  const ValueId a = *builder.EmitOne(Op::kRelu, {x});
  const ValueId b =
      *builder.EmitOne(Op::kReshape, {a}, ShapeAttributes{Shape{8}});
  graph.mutable_value(b).alias = {AliasKind::kView, a};
  graph.AddOutput("b", b);
  auto program = Program::Compile(graph, &backend_);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->launches().size(), 1u);
}

TEST_F(ProgramTest, ErrorsNameTheLayer) {
  backend_.refused = Op::kAdd;
  const auto program = Program::Compile(SmallGraph(false), &backend_);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(program.status().message()),
              HasSubstr("layer \"layer_a\" (add): not on this device"));
}

TEST_F(ProgramTest, SizesWhoseSumCouldOverflowAreRefused) {
  // Two of these are 2^64 bytes, which would count as none.
  for (const uint64_t bytes : {uint64_t{1} << 63, kMaxPlannedBytes}) {
    backend_.workspace = bytes;
    const auto program = Program::Compile(SmallGraph(false), &backend_);
    EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(program.status().message()),
        HasSubstr(absl::StrCat("layer \"layer_a\" needs ", bytes, " bytes")));
  }
}

TEST_F(ProgramTest, PlanningTwiceGivesTheSameBytes) {
  CpuBackend backend(2);
  const Graph graph = TrainingGraph(testing::DigitsModel(), 32);
  const auto a = Program::Compile(graph, &backend);
  const auto b = Program::Compile(graph, &backend);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->bytes().arena, b->bytes().arena);
  EXPECT_EQ(ResidentBytes({a->bytes()}), ResidentBytes({b->bytes()}));
  EXPECT_GT(a->bytes().gradients, 0u);
}

}  // namespace
}  // namespace gpupool::engine
