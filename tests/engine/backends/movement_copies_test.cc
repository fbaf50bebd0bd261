#include "engine/backends/movement_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

// A node whose inputs hold 1, 2, 3 ... in memory order, and its result after
// the copies, also in memory order.
class MovementCopiesTest : public ::testing::Test {
 protected:
  MovementCopiesTest() : builder_(&graph_) {}

  ValueId Input(const Shape& shape) {
    return *builder_.Input(std::string(1, name_++),
                           TensorType{DType::kFloat32, shape});
  }
  std::vector<double> Run(Op op, const std::vector<ValueId>& inputs,
                          Attributes attributes) {
    const auto y = builder_.EmitOne(op, inputs, std::move(attributes));
    EXPECT_TRUE(y.ok()) << y.status();
    return y.ok() ? Copied() : std::vector<double>();
  }
  std::vector<double> Copied() {
    const Node& node = graph_.nodes().back();
    const auto movement = CopiesOf(graph_, node);
    if (!movement.has_value()) return {};
    const Value& y = graph_.value(node.outputs[0]);
    std::vector<double> result(static_cast<size_t>(y.shape.elements()),
                               movement->fill.value_or(-1));
    double base = 0;
    std::vector<double> bases;
    for (const ValueId id : node.inputs) {
      bases.push_back(base);
      base += static_cast<double>(graph_.value(id).shape.elements());
    }
    for (const StridedCopy& copy : movement->copies) {
      for (int64_t i = 0; i < copy.loops.count(); ++i) {
        int64_t rest = i, from = copy.from, to = copy.to;
        for (size_t loop = copy.loops.sizes.size(); loop-- > 0;) {
          const int64_t step = rest % copy.loops.sizes[loop];
          rest /= copy.loops.sizes[loop];
          from += step * copy.loops.strides[0][loop];
          to += step * copy.loops.strides[1][loop];
        }
        result[static_cast<size_t>(to)] =
            bases[copy.input] + static_cast<double>(from + 1);
      }
    }
    return result;
  }

  Graph graph_;
  GraphBuilder builder_;
  char name_ = 'a';
};

TEST_F(MovementCopiesTest, Transpose) {
  EXPECT_THAT(Run(Op::kTranspose, {Input({2, 3})}, TransposeAttributes{{1, 0}}),
              ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(MovementCopiesTest, SliceBackwardsInSteps) {
  EXPECT_THAT(Run(Op::kSlice, {Input({2, 4})},
                  SliceAttributes{{1, 3}, {-1, -2}, {2, 2}}),
              ElementsAre(8, 6, 4, 2));
}

TEST_F(MovementCopiesTest, PadFillsAround) {
  PadAttributes pad;
  pad.before = {0, 1};
  pad.after = {1, 0};
  pad.value = 9;
  EXPECT_THAT(Run(Op::kPad, {Input({1, 2})}, pad),
              ElementsAre(9, 1, 2, 9, 9, 9));
}

TEST_F(MovementCopiesTest, AMirrorIsNoCopy) {
  PadAttributes pad;
  pad.before = pad.after = {1};
  pad.mode = PadMode::kReflect;
  ASSERT_TRUE(builder_.EmitOne(Op::kPad, {Input({3})}, pad).ok());
  EXPECT_FALSE(CopiesOf(graph_, graph_.nodes().back()).has_value());
}

TEST_F(MovementCopiesTest, ConcatPutsInputsBehindEachOther) {
  EXPECT_THAT(
      Run(Op::kConcat, {Input({2, 1}), Input({2, 2})}, AxisAttributes{1}),
      ElementsAre(1, 3, 4, 2, 5, 6));
}

TEST_F(MovementCopiesTest, BroadcastRepeats) {
  EXPECT_THAT(Run(Op::kBroadcast, {Input({2, 1})}, ShapeAttributes{{2, 2}}),
              ElementsAre(1, 1, 2, 2));
}

TEST_F(MovementCopiesTest, LayoutsMoveChannels) {
  const ValueId x = Input({1, 2, 1, 3});
  ASSERT_TRUE(builder_
                  .EmitOne(Op::kLayoutConvert, {x},
                           LayoutAttributes{Layout::kChannelsLast})
                  .ok());
  graph_.mutable_value(graph_.nodes().back().outputs[0]).layout =
      Layout::kChannelsLast;
  EXPECT_THAT(Copied(), ElementsAre(1, 4, 2, 5, 3, 6));
}

}  // namespace
}  // namespace gpupool::engine
