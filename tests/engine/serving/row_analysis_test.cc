#include "engine/serving/row_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "tests/engine/serving/row_graph.h"

namespace gpupool::engine {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

using Body = std::function<ValueId(RowGraph&)>;

// Adds the graphs of a model for batches of 2, 4 and 5.
RowAnalysis Analyse(const Body& body) {
  RowAnalysis analysis;
  for (const int64_t batch : {2, 4, 5}) {
    RowGraph graph(batch, {6});
    graph.Output(body(graph));
    analysis.Add(graph.model(), batch, {});
  }
  return analysis;
}

TEST(RowAnalysisTest, ProvesWhatEveryBatchComputesInTheSameWay) {
  const RowAnalysis analysis = Analyse([](RowGraph& graph) {
    const ValueId two = graph.Constant({}, {2});
    const ValueId twos = graph.Constant(
        {graph.batch(), 1},
        std::vector<double>(static_cast<size_t>(graph.batch()), 2.0));
    const ValueId flat =
        graph.Reshape(graph.Binary(BinaryFunction::kAdd, graph.x(), twos),
                      {graph.batch() * 2, 3});
    return graph.Reshape(graph.Binary(BinaryFunction::kMultiply, flat, two),
                         {graph.batch(), 6});
  });
  EXPECT_THAT(analysis.obstacle(), Eq(std::nullopt));
  EXPECT_TRUE(analysis.compared());
}

TEST(RowAnalysisTest, TheSizeOfTheBatchMustNotBeANumber) {
  const RowAnalysis analysis = Analyse([](RowGraph& graph) {
    const ValueId size =
        graph.Constant({}, {static_cast<double>(graph.batch())});
    return graph.Binary(BinaryFunction::kDivide, graph.x(), size);
  });
  EXPECT_THAT(analysis.obstacle(), Optional(HasSubstr("(binary)")));
}

TEST(RowAnalysisTest, TheSizeOfTheBatchMustNotBeAnAttribute) {
  const RowAnalysis analysis = Analyse([](RowGraph& graph) {
    const auto size = static_cast<double>(graph.batch());
    return graph.Emit(
        Op::kUnary, {graph.x()},
        UnaryAttributes{UnaryFunction::kClip, -size / 9, size / 9});
  });
  EXPECT_THAT(analysis.obstacle(), Optional(HasSubstr("(unary)")));
}

TEST(RowAnalysisTest, TheSizeOfTheBatchMustNotChooseNodes) {
  const RowAnalysis analysis = Analyse([](RowGraph& graph) {
    const ValueId y = graph.Emit(Op::kTanh, {graph.x()});
    return graph.batch() > 2 ? graph.Emit(Op::kTanh, {y}) : y;
  });
  EXPECT_THAT(analysis.obstacle(), Optional(HasSubstr("some batches")));
}

TEST(RowAnalysisTest, TheSizeOfTheBatchMustNotChooseCells) {
  const RowAnalysis analysis = Analyse([](RowGraph& graph) {
    const ValueId part = graph.Emit(
        Op::kSlice, {graph.x()},
        SliceAttributes{{0, 0}, {1, 1}, {graph.batch(), graph.batch()}});
    return graph.Reduce(part, {1});
  });
  EXPECT_THAT(analysis.obstacle(), Optional(HasSubstr("(slice)")));
}

// Importers leave constants behind that hold shapes.
TEST(RowAnalysisTest, NumbersThatNothingReadsDoNotMatter) {
  const RowAnalysis analysis = Analyse([](RowGraph& graph) {
    const ValueId size =
        graph.Constant({1}, {static_cast<double>(graph.batch())});
    graph.Emit(Op::kUnary, {size}, UnaryAttributes{UnaryFunction::kNegate});
    return graph.x();
  });
  EXPECT_THAT(analysis.obstacle(), Eq(std::nullopt));
}

TEST(RowAnalysisTest, GraphsOfOtherSizesAreProvenButNotCompared) {
  RowAnalysis analysis;
  for (const int64_t size : {6, 4}) {
    RowGraph graph(2, {size});
    graph.Output(graph.Emit(Op::kTanh, {graph.x()}));
    analysis.Add(graph.model(), 2, {size});
  }
  EXPECT_FALSE(analysis.compared());
  EXPECT_THAT(analysis.obstacle(), Eq(std::nullopt));
  RowGraph graph(2, {2});
  graph.Output(graph.Emit(Op::kCumSum, {graph.x()}, CumSumAttributes{}));
  analysis.Add(graph.model(), 2, {2});
  EXPECT_THAT(analysis.obstacle(), Optional(std::string("'node0' (cum_sum)")));
}

TEST(FindRowObstacleTest, AnOutputWithoutTheBatchIsOne) {
  RowGraph graph(4, {6});
  graph.Output(graph.Reshape(graph.x(), {3, 8}));
  EXPECT_THAT(FindRowObstacle(graph.model(), 4),
              Optional(std::string("'node0' (reshape)")));
}

TEST(FindRowObstacleTest, AnInputAsOutputIsNone) {
  RowGraph graph(4, {6});
  graph.Output(graph.x());
  EXPECT_THAT(FindRowObstacle(graph.model(), 4), Eq(std::nullopt));
}

}  // namespace
}  // namespace gpupool::engine
