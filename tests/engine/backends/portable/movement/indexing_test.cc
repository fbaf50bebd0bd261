// Cases that the random cases of all back ends do not reach: every reduction of
// scatters, equal indices, batches, long top k, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/portable_backend.h"
#include "tests/engine/backends/portable/compare.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ScatterReduction kReductions[] = {
    ScatterReduction::kNone, ScatterReduction::kAdd,
    ScatterReduction::kMultiply, ScatterReduction::kMinimum,
    ScatterReduction::kMaximum};

TEST(IndexingTest, ScatterElementsAlongEveryAxisWithEqualIndices) {
  for (const ScatterReduction reduction : kReductions) {
    for (const DType dtype :
         {DType::kFloat32, DType::kInt64, DType::kFloat16}) {
      for (const int axis : {0, 1, 2}) {
        SCOPED_TRACE(absl::StrCat("axis ", axis));
        OpCase at(static_cast<uint32_t>(axis));
        const ValueId x = at.Integers({3, 4, 5}, dtype, -3, 3);
        const ValueId indices = at.Integers({2, 4, 3}, DType::kInt32, -3, 2);
        const ValueId updates = at.Integers({2, 4, 3}, dtype, -2, 2);
        at.Emit(Op::kScatterElements, {x, indices, updates},
                ScatterAttributes{axis, reduction});
        ExpectAgreement(at, 0);
      }
    }
  }
}

TEST(IndexingTest, ScatterNdOfRowsAndOfElementsWithEqualIndices) {
  for (const ScatterReduction reduction : kReductions) {
    for (const DType dtype : {DType::kFloat32, DType::kInt8}) {
      for (const int64_t length : {1, 2}) {
        OpCase at(4);
        const ValueId x = at.Integers({3, 4}, dtype, -2, 2);
        const ValueId indices =
            at.Integers({300, length}, DType::kInt64, -3, 2);
        const Shape shape = length == 1 ? Shape{300, 4} : Shape{300};
        const ValueId updates = at.Integers(shape, dtype, -1, 1);
        at.Emit(Op::kScatterNd, {x, indices, updates},
                ScatterAttributes{0, reduction});
        ExpectAgreement(at, 0);
      }
    }
  }
}

TEST(IndexingTest, GatherNdWithBatches) {
  OpCase at(0);
  const ValueId x = at.Floats({2, 3, 4, 8});
  at.Emit(Op::kGatherNd, {x, at.Integers({2, 5, 2}, DType::kInt64, -3, 2)},
          GatherNdAttributes{1});
  ExpectAgreement(at, 0);
}

TEST(IndexingTest, GatherElementsAlongEveryAxis) {
  for (const int axis : {0, 1, 2}) {
    for (const DType dtype : {DType::kFloat64, DType::kBool}) {
      OpCase at(1);
      const ValueId x = at.Integers({3, 4, 5}, dtype, 0, 1);
      at.Emit(Op::kGatherElements,
              {x, at.Integers({2, 3, 4}, DType::kInt32, -3, 2)},
              AxisAttributes{axis});
      ExpectAgreement(at, 0);
    }
  }
}

// Many parts of the counting sort, and rows without an index.
TEST(IndexingTest, GatherGradAddsUpManyRows) {
  for (const int axis : {0, 1}) {
    OpCase at(2);
    const Shape input = axis == 0 ? Shape{50, 6} : Shape{3, 50, 6};
    const Shape dy = axis == 0 ? Shape{1000, 6} : Shape{3, 1000, 6};
    const ValueId grad = at.CoarseFloats(dy);
    at.Emit(Op::kGatherGrad, {grad, at.Integers({1000}, DType::kInt64, -20, 9)},
            GatherGradAttributes{axis, input});
    ExpectAgreement(at, 0);
  }
}

TEST(IndexingTest, TopKOfEveryType) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64,
                            DType::kUint8, DType::kBFloat16}) {
    for (const int64_t k : {0, 1, 5, 70, 100}) {
      for (const bool largest : {true, false}) {
        for (const int axis : {0, 1}) {
          SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " k ", k));
          OpCase at(static_cast<uint32_t>(k));
          const Shape shape = axis == 0 ? Shape{100, 3} : Shape{3, 100};
          const ValueId x = at.Integers(shape, dtype, 0, 40);
          at.Emit(Op::kTopK, {x}, TopKAttributes{axis, k, largest, true});
          ExpectAgreement(at, 0);
        }
      }
    }
  }
}

TEST(IndexingTest, TopKOfNan) {
  for (const bool largest : {true, false}) {
    OpCase at(0);
    const ValueId x = at.Integers({5}, DType::kFloat32, 0, 0);
    at.inputs.begin()->second = {1, NAN, -HUGE_VAL, NAN, HUGE_VAL};
    at.Emit(Op::kTopK, {x}, TopKAttributes{0, 5, largest, true});
    ExpectAgreement(at, 0);
  }
}

absl::Status RunOnPortable(OpCase& at) {
  for (Node& node : at.graph().mutable_nodes()) node.source = "layer";
  portable::PortableBackend backend;
  return RunNodes(backend, at.graph(), at.inputs, at.persistents).status();
}

TEST(IndexingTest, IndicesOutsideNameTheLayerAndTheLimit) {
  OpCase gather(0);
  gather.Emit(
      Op::kGather,
      {gather.Floats({4, 3}), gather.Integers({2}, DType::kInt64, 4, 4)},
      AxisAttributes{0});
  const absl::Status status = RunOnPortable(gather);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("'layer'"), HasSubstr("index 4"), HasSubstr("-4 .. 3")));
}

TEST(IndexingTest, EveryOpReportsIndicesOutside) {
  std::vector<OpCase> cases;
  cases.reserve(5);  // a case must not move while it is being built
  for (int i = 0; i < 5; ++i) cases.emplace_back(0);
  const auto indices = [](OpCase& at, const Shape& shape) {
    return at.Integers(shape, DType::kInt32, -5, -5);
  };
  cases[0].Emit(Op::kGatherElements,
                {cases[0].Floats({4}), indices(cases[0], {2})},
                AxisAttributes{0});
  cases[1].Emit(Op::kGatherNd,
                {cases[1].Floats({4}), indices(cases[1], {2, 1})},
                GatherNdAttributes{});
  cases[2].Emit(
      Op::kScatterElements,
      {cases[2].Floats({4}), indices(cases[2], {2}), cases[2].Floats({2})},
      ScatterAttributes{});
  cases[3].Emit(
      Op::kScatterNd,
      {cases[3].Floats({4}), indices(cases[3], {2, 1}), cases[3].Floats({2})},
      ScatterAttributes{});
  cases[4].Emit(Op::kGatherGrad, {cases[4].Floats({2}), indices(cases[4], {2})},
                GatherGradAttributes{0, {4}});
  for (OpCase& at : cases) {
    EXPECT_EQ(RunOnPortable(at).code(), absl::StatusCode::kInvalidArgument)
        << OpName(at.graph().nodes()[0].op);
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
