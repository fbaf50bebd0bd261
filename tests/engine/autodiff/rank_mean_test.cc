#include "engine/autodiff/rank_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/graph/print.h"
#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RankMeanTest : public ::testing::Test {
 protected:
  RankMeanTest() {
    const ValueId x = *builder_.Input("x", {DType::kFloat32, {4}});
    // Written in the order b, a.
    const ValueId b = *builder_.EmitOne(Op::kTanh, {x});
    const ValueId a = *builder_.EmitOne(
        Op::kReduce, {b}, ReduceAttributes{ReduceFunction::kSum, {0}, true});
    graph_.AddOutput("loss",
                     *builder_.EmitOne(Op::kReshape, {a}, ShapeAttributes{{}}));
    gradients_ = {a, b};
  }

  absl::Status Add(int ranks, const BucketSizes& sizes = {}) {
    const std::vector<int> order = OrderOfAppearance(graph_, gradients_);
    return AddRankMean({.ranks = ranks, .order = order, .sizes = sizes},
                       builder_, gradients_);
  }

  std::vector<const Node*> NodesOf(Op op) const {
    std::vector<const Node*> nodes;
    for (const Node& node : graph_.nodes()) {
      if (node.op == op) nodes.push_back(&node);
    }
    return nodes;
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
  std::vector<ValueId> gradients_;
};

TEST_F(RankMeanTest, TheOrderIsThatOfTheNodes) {
  EXPECT_THAT(OrderOfAppearance(graph_, gradients_), ElementsAre(1, 0));
}

TEST_F(RankMeanTest, OneRankAddsNothing) {
  const std::string before = Print(graph_);
  const std::vector<ValueId> gradients = gradients_;
  ASSERT_TRUE(Add(1).ok());
  EXPECT_EQ(Print(graph_), before);
  EXPECT_EQ(gradients_, gradients);
}

TEST_F(RankMeanTest, EachBucketIsStartedAndAwaitedTheLossInTheLast) {
  const ValueId a = gradients_[0], b = gradients_[1];
  ASSERT_TRUE(Add(2, {.first_bytes = 4, .other_bytes = 4}).ok());
  ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_) << Print(graph_);
  const auto starts = NodesOf(Op::kAllReduceStart);
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_THAT(starts[0]->inputs, ElementsAre(b));
  ASSERT_EQ(starts[1]->inputs.size(), 4u);
  EXPECT_EQ(starts[1]->inputs[0], a);
  const auto waits = NodesOf(Op::kAllReduceWait);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_THAT(waits[0]->outputs, ElementsAre(gradients_[1]));
  EXPECT_EQ(waits[1]->outputs[0], gradients_[0]);
  EXPECT_EQ(graph_.FindOutput("loss"), waits[1]->outputs[1]);
  EXPECT_EQ(graph_.FindOutput("earlier_loss"), waits[1]->outputs[2]);
  EXPECT_EQ(graph_.FindOutput("stop_wanted"), waits[1]->outputs[3]);
}

TEST_F(RankMeanTest, EqualRanksHaveTheirOwnGradientsAsMeans) {
  graph_.AddOutput("a", gradients_[0]);
  graph_.AddOutput("b", gradients_[1]);
  ASSERT_TRUE(Add(3).ok());
  graph_.AddOutput("mean a", gradients_[0]);
  graph_.AddOutput("mean b", gradients_[1]);
  reference::NamedNumbers state;
  const auto outputs = reference::Run(
      graph_,
      {{"x", {1, 2, 3, 4}}, {"earlier_loss", {5}}, {"stop_wanted", {1}}},
      state);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->at("mean a"), outputs->at("a"));
  EXPECT_EQ(outputs->at("mean b"), outputs->at("b"));
  EXPECT_EQ(outputs->at("loss"), outputs->at("a"));
  EXPECT_THAT(outputs->at("earlier_loss"), ElementsAre(5));
  EXPECT_THAT(outputs->at("stop_wanted"), ElementsAre(1));
}

TEST_F(RankMeanTest, GradientsMustBeFloat32) {
  gradients_[0] = *builder_.EmitOne(Op::kCast, {gradients_[0]},
                                    CastAttributes{DType::kFloat16});
  EXPECT_THAT(std::string(Add(2).message()), HasSubstr("float16"));
}

}  // namespace
}  // namespace gpupool::engine
