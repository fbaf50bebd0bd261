#include "engine/serving/row_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using Kind = RowFacts::Kind;

RowFacts Rows(int64_t outer, int64_t inner) {
  return {.kind = Kind::kRows, .outer = outer, .inner = inner};
}

RowFacts Even(uint32_t axes) { return {.kind = Kind::kSame, .even = axes}; }

Value Constant(const Shape& shape, std::vector<double> numbers) {
  Value value;
  value.kind = ValueKind::kConstant;
  value.shape = shape;
  value.constant = std::move(numbers);
  return value;
}

TEST(FindRowAxisTest, FindsTheAxisThatHoldsTheRows) {
  const auto front = FindRowAxis(Rows(1, 12), {5, 3, 4}, 5);
  ASSERT_TRUE(front.has_value());
  EXPECT_EQ(front->axis, 0);
  EXPECT_EQ(front->inner, 1);
  // Four heads of each row, as [rows * heads, cells].
  const auto merged = FindRowAxis(Rows(1, 12), {20, 3}, 5);
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->axis, 0);
  EXPECT_EQ(merged->inner, 4);
  const auto middle = FindRowAxis(Rows(3, 4), {3, 5, 4}, 5);
  ASSERT_TRUE(middle.has_value());
  EXPECT_EQ(middle->axis, 1);
  EXPECT_EQ(middle->outer, 1);
  const auto behind = FindRowAxis(Rows(3, 4), {15, 4}, 5);
  ASSERT_TRUE(behind.has_value());
  EXPECT_EQ(behind->outer, 3);
}

TEST(FindRowAxisTest, RowsOverSeveralAxesHaveNone) {
  EXPECT_FALSE(FindRowAxis(Rows(1, 3), {2, 6}, 4).has_value());
  EXPECT_FALSE(FindRowAxis(Rows(1, 4), {3, 2, 2}, 6).has_value());
}

TEST(RowsAtTest, IsTheInverseOfFindRowAxis) {
  const Shape shape{3, 20, 2};
  const RowFacts facts = RowsAt({.axis = 1, .outer = 2, .inner = 2}, shape);
  EXPECT_EQ(facts, Rows(6, 4));
  const auto axis = FindRowAxis(facts, shape, 5);
  ASSERT_TRUE(axis.has_value());
  EXPECT_EQ(axis->outer, 2);
  EXPECT_EQ(axis->inner, 2);
}

TEST(EvenAxesTest, ComparesTheNumbersAlongEachAxis) {
  EXPECT_EQ(EvenAxes(Constant({2, 3}, {1, 2, 3, 1, 2, 3})), 1u);
  EXPECT_EQ(EvenAxes(Constant({2, 3}, {1, 1, 1, 2, 2, 2})), 2u);
  EXPECT_EQ(EvenAxes(Constant({2, 2}, {1, 2, 3, 4})), 0u);
  EXPECT_EQ(EvenAxes(Constant({2, 3}, {7})), kAllAxes);
}

TEST(ReshapedFactsTest, RowsStayAndEvenAxesFollowTheirParts) {
  EXPECT_EQ(ReshapedFacts(Rows(1, 12), {5, 12}, {20, 3}), Rows(1, 12));
  EXPECT_EQ(ReshapedFacts(Even(1), {6, 5}, {2, 3, 5}).even, 3u);
  EXPECT_EQ(ReshapedFacts(Even(3), {2, 3, 5}, {6, 5}).even, 1u);
  // One of the two joined axes is not even.
  EXPECT_EQ(ReshapedFacts(Even(1), {2, 3, 5}, {6, 5}).even, 0u);
  // The first axis of the result moves along the last of the operand as well.
  EXPECT_EQ(ReshapedFacts(Even(1), {4, 3}, {3, 4}).even, 0u);
}

class JoinedFactsTest : public ::testing::Test {
 protected:
  static constexpr int kNode = 9;
  static RowFacts Join(const Shape& shape,
                       const std::vector<RowOperand>& operands,
                       uint32_t own = 0) {
    return JoinedFacts({.shape = shape, .batch = 5, .node = kNode, .own = own},
                       operands);
  }
};

TEST_F(JoinedFactsTest, RowsMeetOnlyAtTheSamePlace) {
  const RowOperand front{Rows(1, 4), {5, 4}, {0, 1}};
  const RowOperand behind{Rows(4, 1), {4, 5}, {0, 1}};
  const RowOperand vector{Rows(1, 1), {5}, {1}};
  EXPECT_EQ(Join({5, 4}, {front, front}), Rows(1, 4));
  EXPECT_EQ(Join({4, 5}, {behind, vector}), Rows(4, 1));
  const RowOperand column{Rows(1, 1), {5, 1}, {0, 1}};
  EXPECT_EQ(Join({5, 5}, {column, vector}).kind, Kind::kMixed);
  EXPECT_EQ(Join({5, 5}, {column, vector}).node, kNode);
}

TEST_F(JoinedFactsTest, WhatIsTheSameMustBeEvenAlongTheRows) {
  const RowOperand rows{Rows(1, 4), {5, 4}, {0, 1}};
  EXPECT_EQ(Join({5, 4}, {rows, {Even(0), {1, 4}, {0, 1}}}), Rows(1, 4));
  EXPECT_EQ(Join({5, 4}, {rows, {Even(1), {5, 4}, {0, 1}}}), Rows(1, 4));
  EXPECT_EQ(Join({5, 4}, {rows, {Even(2), {5, 4}, {0, 1}}}).kind, Kind::kMixed);
}

TEST_F(JoinedFactsTest, AnAxisThatCountsAsAWholeMixes) {
  EXPECT_EQ(Join({4}, {{Rows(1, 4), {5, 4}, {-1, 0}}}).kind, Kind::kMixed);
  EXPECT_EQ(Join({5}, {{Rows(1, 4), {5, 4}, {0, -1}}}), Rows(1, 1));
}

TEST_F(JoinedFactsTest, TheFirstMixedOperandKeepsTheBlame) {
  const RowOperand mixed{{.node = 3}, {5, 4}, {0, 1}};
  EXPECT_EQ(Join({5, 4}, {mixed}).node, 3);
}

TEST_F(JoinedFactsTest, RowsOverSeveralAxesPassElementwiseOps) {
  const RowOperand spread{Rows(1, 2), {2, 5, 1}, {0, 1, 2}};
  ASSERT_FALSE(FindRowAxis(Rows(1, 2), {2, 5, 1}, 5).has_value());
  EXPECT_EQ(Join({2, 5, 1}, {spread, {Even(0), {1}, {2}}}), Rows(1, 2));
  EXPECT_EQ(Join({2, 5, 1}, {spread}, 2).kind, Kind::kMixed);
}

TEST_F(JoinedFactsTest, OwnAxesAreNotEven) {
  const RowOperand same{Even(3), {2, 3}, {0, 1}};
  EXPECT_EQ(Join({2, 3}, {same}).even, 3u);
  EXPECT_EQ(Join({2, 3}, {same}, 2).even, 1u);
}

}  // namespace
}  // namespace gpupool::engine
