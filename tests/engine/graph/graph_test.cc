#include "engine/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/builder.h"
#include "engine/graph/verify.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

const TensorType kType{DType::kFloat32, {2, 3}};

class GraphTest : public ::testing::Test {
 protected:
  GraphTest() {
    GraphBuilder builder(&graph_);
    x_ = *builder.Input("x", kType);
    dead_ = *builder.EmitOne(Op::kTanh, {x_});
    y_ = *builder.EmitOne(Op::kRelu, {x_});
    z_ = *builder.EmitOne(Op::kAdd, {y_, y_});
    graph_.AddOutput("out", z_);
  }

  Graph graph_;
  ValueId x_, dead_, y_, z_;
};

TEST_F(GraphTest, FindsValuesAndOutputsByName) {
  EXPECT_EQ(graph_.FindValue("x")->id, x_);
  EXPECT_EQ(graph_.FindValue("nobody"), nullptr);
  EXPECT_EQ(graph_.FindOutput("out"), z_);
  EXPECT_EQ(graph_.FindOutput("x"), std::nullopt);
}

TEST_F(GraphTest, IndexKnowsProducersReadersAndOutputs) {
  const GraphIndex index(graph_);
  EXPECT_EQ(index.producer(x_), -1);
  EXPECT_EQ(index.producer(y_), 1);
  EXPECT_THAT(index.readers(x_), ElementsAre(0, 1));
  EXPECT_THAT(index.readers(y_), ElementsAre(2, 2));
  EXPECT_TRUE(index.is_output(z_));
  EXPECT_FALSE(index.is_output(y_));
}

TEST_F(GraphTest, CompactDropsWhatNobodyMentionsAndRenumbers) {
  graph_.mutable_nodes().erase(graph_.mutable_nodes().begin());
  graph_.Compact();
  EXPECT_EQ(graph_.values().size(), 3u);
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    EXPECT_EQ(graph_.values()[i].id.index, static_cast<int32_t>(i));
  }
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_);
}

TEST_F(GraphTest, CompactKeepsUnreadInputs) {
  GraphBuilder builder(&graph_);
  ASSERT_TRUE(builder.Input("unread", kType).ok());
  graph_.Compact();
  EXPECT_NE(graph_.FindValue("unread"), nullptr);
}

TEST_F(GraphTest, FlopsAreThoseOfStepNodes) {
  EXPECT_EQ(GraphFlops(graph_), 18u);
  graph_.mutable_nodes()[0].stage = Stage::kLoad;
  EXPECT_EQ(GraphFlops(graph_), 12u);
}

TEST(SameBytesTest, HoldsForOneChannelOrOneCell) {
  EXPECT_TRUE(SameBytesInAnyLayout({4, 1, 8, 8}));
  EXPECT_TRUE(SameBytesInAnyLayout({4, 3, 1, 1}));
  EXPECT_FALSE(SameBytesInAnyLayout({4, 3, 1, 2}));
  EXPECT_FALSE(SameBytesInAnyLayout({4, 1}));
}

}  // namespace
}  // namespace gpupool::engine
