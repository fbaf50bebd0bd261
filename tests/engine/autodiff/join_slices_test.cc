#include "engine/autodiff/join_slices.h"

#include <gtest/gtest.h>

#include "tests/engine/autodiff/gradient_fixture.h"

namespace gpupool::engine {
namespace {

SliceAttributes Cut(const Shape& shape, int axis, int64_t start, int64_t size,
                    int64_t step = 1) {
  const auto rank = static_cast<size_t>(shape.rank());
  SliceAttributes slice{std::vector<int64_t>(rank, 0),
                        std::vector<int64_t>(rank, 1),
                        {shape.dims().begin(), shape.dims().end()}};
  const auto at = static_cast<size_t>(axis);
  slice.starts[at] = start;
  slice.sizes[at] = size;
  slice.steps[at] = step;
  return slice;
}

class JoinSlicesTest : public ::testing::Test {
 protected:
  // Returns the gradient of x [6, 2] from parts with these slices.
  ValueId Join(const std::vector<SliceAttributes>& slices) {
    std::vector<autodiff::SlicePart> parts;
    for (const SliceAttributes& slice : slices) {
      const Shape shape = *Shape::Create(slice.sizes);
      parts.push_back(
          {builder_.Constant({DType::kFloat32, shape}, {1}), slice});
    }
    auto joined = autodiff::JoinSlices(builder_, {DType::kFloat32, kWhole},
                                       std::move(parts));
    EXPECT_TRUE(joined.ok()) << joined.status();
    return joined.ok() ? *joined : ValueId{};
  }

  static constexpr int64_t kRows = 6;
  const Shape kWhole{kRows, 2};
  Graph graph_;
  GraphBuilder builder_{&graph_};
};

TEST_F(JoinSlicesTest, PartsInAnyOrderBecomeOneConcatenation) {
  const ValueId joined = Join({Cut(kWhole, 0, 4, 2), Cut(kWhole, 0, 0, 4)});
  ASSERT_TRUE(joined.valid());
  EXPECT_EQ(graph_.value(joined).shape, kWhole);
  EXPECT_EQ(graph_.nodes().size(), 1u);
  EXPECT_EQ(graph_.nodes()[0].inputs.size(), 2u);
}

TEST_F(JoinSlicesTest, GapsBecomeZeros) {
  const ValueId joined = Join({Cut(kWhole, 0, 1, 2), Cut(kWhole, 0, 4, 1)});
  ASSERT_TRUE(joined.valid());
  EXPECT_EQ(graph_.value(joined).shape, kWhole);
  EXPECT_EQ(graph_.nodes()[0].inputs.size(), 5u);
}

TEST_F(JoinSlicesTest, OtherCutsAreLeftAlone) {
  EXPECT_FALSE(Join({Cut(kWhole, 0, 0, 3), Cut(kWhole, 0, 2, 2)}).valid());
  EXPECT_FALSE(Join({Cut(kWhole, 0, 0, 3), Cut(kWhole, 1, 0, 1)}).valid());
  EXPECT_FALSE(Join({Cut(kWhole, 0, 0, 3, 2), Cut(kWhole, 0, 5, 1)}).valid());
  EXPECT_FALSE(Join({Cut(kWhole, 0, 0, 6), Cut(kWhole, 0, 0, 6)}).valid());
}

TEST_F(GradientTest, SlicesOfOneValueAndAnotherReader) {
  const ValueId x = Weight("x", {6, 2});
  const Shape shape{6, 2};
  const ValueId first = Emit(Op::kSlice, {x}, Cut(shape, 0, 4, 2));
  const ValueId second = Emit(Op::kSlice, {x}, Cut(shape, 0, 1, 2));
  const ValueId product = Emit(Op::kBinary, {first, second},
                               BinaryAttributes{BinaryFunction::kMultiply});
  const ValueId sum =
      Emit(Op::kReduce, {x}, ReduceAttributes{ReduceFunction::kSum, {0}, true});
  Check(Emit(Op::kBinary, {product, sum},
             BinaryAttributes{BinaryFunction::kMultiply}));
}

}  // namespace
}  // namespace gpupool::engine
