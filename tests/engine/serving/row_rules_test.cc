#include "engine/serving/row_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/graph/broadcast.h"
#include "engine/serving/row_analysis.h"
#include "tests/engine/serving/row_graph.h"

namespace gpupool::engine {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int64_t kBatch = 4;

class RowRulesTest : public ::testing::Test {
 protected:
  static RowGraph Graph(const Shape& example) {
    return RowGraph(kBatch, example);
  }
  static void ExpectProof(RowGraph& graph, ValueId y) {
    graph.Output(y);
    EXPECT_THAT(FindRowObstacle(graph.model(), kBatch), Eq(std::nullopt));
    EXPECT_FALSE(graph.RowsInfluenceEachOther());
  }
  static void ExpectObstacle(RowGraph& graph, ValueId y,
                             const std::string& node) {
    graph.Output(y);
    EXPECT_THAT(FindRowObstacle(graph.model(), kBatch),
                Optional(HasSubstr(node)));
    EXPECT_TRUE(graph.RowsInfluenceEachOther());
  }
};

TEST_F(RowRulesTest, AMeanOverTheBatchMixes) {
  RowGraph graph = Graph({3});
  const ValueId mean = graph.Reduce(graph.x(), {0});
  ExpectObstacle(graph,
                 graph.Binary(BinaryFunction::kSubtract, graph.x(), mean),
                 "'node0' (reduce)");
}

TEST_F(RowRulesTest, RowsWalkTreesOnTheirOwn) {
  RowGraph graph = Graph({3});
  const auto list = [&](std::vector<double> numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    return graph.Constant({count}, std::move(numbers), DType::kInt32);
  };
  const ValueId thresholds = graph.Constant({3}, {0, 0, 1});
  const ValueId slots =
      graph.Emit(Op::kTreeWalk,
                 {graph.x(), list({0, 0, 1}), thresholds, list({0, 1, 0}),
                  list({0, 1, 1}), list({2, 2})},
                 TreeWalkAttributes{1});
  ExpectProof(graph,
              graph.Emit(Op::kCast, {slots}, CastAttributes{DType::kFloat32}));
}

TEST_F(RowRulesTest, RowsMultiplyBlockedCodesOnTheirOwn) {
  RowGraph graph = Graph({4});
  const ValueId codes = graph.Constant({2, 1, 2}, {1, 2, 3, 4}, DType::kUint8);
  const ValueId scales = graph.Constant({2, 1}, {1, 2});
  ExpectProof(graph, graph.Emit(Op::kBlockedMatMul, {graph.x(), codes, scales},
                                BlockedMatMulAttributes{4, false}));
}

TEST_F(RowRulesTest, RowsComputeWithTheirOwnCodes) {
  RowGraph graph = Graph({2, 5, 5});
  const ValueId codes =
      graph.Emit(Op::kQuantize, {graph.x()}, QuantizeAttributes{});
  const ValueId weights =
      graph.Constant({3, 2, 1, 1}, {1, 2, 3, 4, 5, 6}, DType::kInt8);
  const ValueId row = graph.Constant({3}, {1, 2, 3});
  const ValueId y = graph.Emit(Op::kQuantizedConv2d, {codes, weights, row, row},
                               QuantizedConv2dAttributes{});
  const ValueId sum =
      graph.Emit(Op::kQuantizedAdd, {y, y}, QuantizedAddAttributes{});
  ExpectProof(graph,
              graph.Emit(Op::kDequantize, {sum}, DequantizeAttributes{}));
}

TEST_F(RowRulesTest, AMeanWithinTheRowDoesNot) {
  RowGraph graph = Graph({3});
  const ValueId mean = graph.Reduce(graph.x(), {1});
  ExpectProof(graph, graph.Binary(BinaryFunction::kSubtract, graph.x(), mean));
}

TEST_F(RowRulesTest, ARunningSumOverTheBatchMixes) {
  for (const int axis : {0, 1}) {
    RowGraph graph = Graph({3});
    const ValueId y =
        graph.Emit(Op::kCumSum, {graph.x()}, CumSumAttributes{.axis = axis});
    if (axis == 0) {
      ExpectObstacle(graph, y, "(cum_sum)");
    } else {
      ExpectProof(graph, y);
    }
  }
}

TEST_F(RowRulesTest, TheBatchMayBeMovedAndMovedBack) {
  RowGraph graph = Graph({3, 2});
  const ValueId there = graph.Transpose(graph.x(), {1, 2, 0});
  const ValueId soft =
      graph.Emit(Op::kCumSum, {there}, CumSumAttributes{.axis = 0});
  ExpectProof(graph, graph.Transpose(soft, {2, 0, 1}));
}

TEST_F(RowRulesTest, AfterTheMoveTheSameAxisIsTheBatch) {
  RowGraph graph = Graph({3, 2});
  const ValueId there = graph.Transpose(graph.x(), {1, 2, 0});
  const ValueId soft = graph.Emit(Op::kSoftmax, {there});
  ExpectObstacle(graph, graph.Transpose(soft, {2, 0, 1}), "(softmax)");
}

// The output has as many rows as the batch, but each is of all of them.
TEST_F(RowRulesTest, TheBatchMustBeInFront) {
  RowGraph graph = Graph({kBatch});
  ExpectObstacle(graph, graph.Transpose(graph.x(), {1, 0}), "(transpose)");
}

TEST_F(RowRulesTest, TheBatchMayBeMergedWithAnotherAxis) {
  RowGraph graph = Graph({3, 6});
  const ValueId rows = graph.Reshape(graph.x(), {kBatch * 3, 6});
  const ValueId y = graph.Emit(Op::kMatMul, {rows, graph.Weight("w", {6, 5})},
                               MatMulAttributes{});
  ExpectProof(graph, graph.Reshape(y, {kBatch, 3, 5}));
}

TEST_F(RowRulesTest, AMergedAxisIsNotReduced) {
  RowGraph graph = Graph({3, 6});
  const ValueId rows = graph.Reshape(graph.x(), {kBatch * 3, 6});
  const ValueId mean = graph.Reduce(rows, {0});
  ExpectObstacle(
      graph,
      graph.Reshape(graph.Binary(BinaryFunction::kSubtract, rows, mean),
                    {kBatch, 3, 6}),
      "(reduce)");
}

// The elements stay where they are, and the last axis then runs over two rows.
TEST_F(RowRulesTest, AReshapeAcrossRowsIsFollowed) {
  RowGraph graph = Graph({3});
  const ValueId pairs = graph.Reshape(graph.x(), {kBatch / 2, 6});
  const ValueId soft = graph.Emit(Op::kSoftmax, {pairs});
  ExpectObstacle(graph, graph.Reshape(soft, {kBatch, 3}), "(softmax)");
}

TEST_F(RowRulesTest, ProductsOfRowsWithEachOtherMix) {
  RowGraph graph = Graph({3});
  const ValueId scores = graph.Emit(Op::kMatMul, {graph.x(), graph.x()},
                                    MatMulAttributes{.transpose_b = true});
  ExpectObstacle(graph, scores, "(matmul)");
}

TEST_F(RowRulesTest, ProductsWithinRowsDoNot) {
  RowGraph graph = Graph({3, 5});
  const ValueId scores = graph.Emit(Op::kBatchMatMul, {graph.x(), graph.x()},
                                    BatchMatMulAttributes{.transpose_b = true});
  ExpectProof(graph, graph.Emit(Op::kBatchMatMul, {scores, graph.x()},
                                BatchMatMulAttributes{}));
}

TEST_F(RowRulesTest, BatchNormOfTrainingMixes) {
  RowGraph graph = Graph({3, 2});
  const ValueId y = graph.Emit(
      Op::kBatchNormTraining,
      {graph.x(), graph.Weight("gamma", {3}), graph.Weight("beta", {3})},
      NormAttributes{});
  ExpectObstacle(graph, y, "(batch_norm_training)");
}

TEST_F(RowRulesTest, BatchNormOfInferenceDoesNot) {
  RowGraph graph = Graph({3, 2});
  const ValueId y = graph.Emit(
      Op::kBatchNormInference,
      {graph.x(), graph.Weight("gamma", {3}), graph.Weight("beta", {3}),
       graph.Weight("mean", {3}), graph.Weight("variance", {3})},
      NormAttributes{});
  ExpectProof(graph, y);
}

TEST_F(RowRulesTest, NormsOverTheLastAxisDoNot) {
  RowGraph graph = Graph({3, 2});
  ExpectProof(graph, graph.Emit(Op::kLayerNorm,
                                {graph.x(), graph.Weight("gamma", {2}),
                                 graph.Weight("beta", {2})},
                                NormAttributes{}));
}

TEST_F(RowRulesTest, ConvolutionsAndPoolsDoNot) {
  RowGraph graph = Graph({2, 6, 6});
  Conv2dAttributes conv;
  conv.padding = Padding(1, 1);
  Pool2dAttributes pool;
  pool.kernel = pool.stride = {2, 2};
  const ValueId y = graph.Emit(
      Op::kConv2d, {graph.x(), graph.Weight("w", {4, 2, 3, 3})}, conv);
  const ValueId most = graph.Emit(Op::kMaxPool, {y}, pool);
  const ValueId mean = graph.Emit(Op::kAvgPool, {most}, pool);
  ExpectProof(graph, graph.Emit(Op::kGlobalAvgPool, {mean}));
}

// The batch in the place of the channels, of which each output takes all.
TEST_F(RowRulesTest, AConvolutionOverTheBatchMixes) {
  RowGraph graph = Graph({2, 6, 6});
  const ValueId x = graph.Transpose(graph.x(), {1, 0, 2, 3});
  const ValueId y =
      graph.Emit(Op::kConv2d, {x, graph.Weight("w", {kBatch, kBatch, 1, 1})},
                 Conv2dAttributes{});
  ExpectObstacle(graph, graph.Transpose(y, {1, 0, 2, 3}), "(conv2d)");
}

TEST_F(RowRulesTest, EmbeddingsDoNot) {
  RowGraph graph = Graph({3});
  const ValueId ids =
      graph.Emit(Op::kCast, {graph.x()}, CastAttributes{DType::kInt64});
  ExpectProof(graph,
              graph.Emit(Op::kGather, {graph.Weight("table", {5, 2}), ids},
                         AxisAttributes{0}));
}

TEST_F(RowRulesTest, RowsInAnotherOrderMix) {
  RowGraph graph = Graph({3});
  const ValueId order = graph.Constant({kBatch}, {1, 0, 3, 2}, DType::kInt64);
  ExpectObstacle(graph,
                 graph.Emit(Op::kGather, {graph.x(), order}, AxisAttributes{0}),
                 "(gather)");
}

TEST_F(RowRulesTest, RowsFromTheEndToTheBeginMix) {
  RowGraph graph = Graph({3});
  const SliceAttributes turned{{kBatch - 1, 0}, {-1, 1}, {kBatch, 3}};
  ExpectObstacle(graph, graph.Emit(Op::kSlice, {graph.x()}, turned), "(slice)");
}

TEST_F(RowRulesTest, PartsOfRowsDoNot) {
  RowGraph graph = Graph({3});
  const ValueId part = graph.Emit(Op::kSlice, {graph.x()},
                                  SliceAttributes{{0, 1}, {1, 1}, {kBatch, 2}});
  ExpectProof(graph,
              graph.Emit(Op::kConcat, {part, graph.x()}, AxisAttributes{1}));
}

TEST_F(RowRulesTest, ATokenInFrontOfEachRowDoesNot) {
  RowGraph graph = Graph({3, 2});
  const ValueId token =
      graph.Emit(Op::kBroadcast, {graph.Weight("token", {1, 1, 2})},
                 ShapeAttributes{{kBatch, 1, 2}});
  ExpectProof(graph,
              graph.Emit(Op::kConcat, {token, graph.x()}, AxisAttributes{1}));
}

// The answer would depend on the place in the batch.
TEST_F(RowRulesTest, NumbersOfEachPlaceInTheBatchMix) {
  RowGraph graph = Graph({3});
  const ValueId places = graph.Constant({kBatch, 1}, {0, 1, 2, 3});
  graph.Output(graph.Binary(BinaryFunction::kAdd, graph.x(), places));
  EXPECT_THAT(FindRowObstacle(graph.model(), kBatch),
              Optional(std::string("'node0' (binary)")));
}

// Each row draws other numbers.
TEST_F(RowRulesTest, RandomNumbersMix) {
  RowGraph graph = Graph({3});
  const ValueId zero = graph.Constant({}, {0}, DType::kInt64);
  RandomAttributes attributes;
  attributes.shape = {kBatch, 3};
  const ValueId noise = graph.Emit(Op::kRandom, {zero, zero}, attributes);
  graph.Output(graph.Binary(BinaryFunction::kAdd, graph.x(), noise));
  EXPECT_THAT(FindRowObstacle(graph.model(), kBatch),
              Optional(HasSubstr("(binary)")));
}

TEST_F(RowRulesTest, AnOpWithoutARuleMixes) {
  RowGraph graph = Graph({3});
  const ValueId zero = graph.Constant({}, {0}, DType::kInt64);
  graph.Output(
      graph.Emit(Op::kDropout, {graph.x(), zero, zero}, DropoutAttributes{}));
  EXPECT_THAT(FindRowObstacle(graph.model(), kBatch),
              Optional(HasSubstr("(dropout)")));
}

TEST_F(RowRulesTest, AttentionOfEachRowDoesNot) {
  RowGraph graph = Graph({2, 3, 4});
  ExpectProof(graph,
              graph.Emit(Op::kAttention, {graph.x(), graph.x(), graph.x()},
                         AttentionAttributes{.causal = true}));
}

TEST_F(RowRulesTest, AttentionBetweenRowsMixes) {
  RowGraph graph = Graph({2, 3});
  const ValueId x =
      graph.Reshape(graph.Transpose(graph.x(), {1, 0, 2}), {1, 2, kBatch, 3});
  const ValueId y =
      graph.Emit(Op::kAttention, {x, x, x}, AttentionAttributes{});
  ExpectObstacle(graph,
                 graph.Transpose(graph.Reshape(y, {2, kBatch, 3}), {1, 0, 2}),
                 "(attention)");
}

TEST_F(RowRulesTest, TheBestOfEachRowDoesNot) {
  RowGraph graph = Graph({5});
  const ValueIds top =
      graph.All(Op::kTopK, {graph.x()}, TopKAttributes{.axis = 1, .k = 2});
  const ValueId best =
      graph.Emit(Op::kGatherElements, {graph.x(), top[1]}, AxisAttributes{1});
  ExpectProof(graph, best);
}

// Makes random graphs.
class RandomRows {
 public:
  explicit RandomRows(uint32_t seed) : random_(seed) {}

  size_t Pick(size_t count) { return random_() % count; }
  int Axis(const Shape& shape) {
    return static_cast<int>(Pick(static_cast<size_t>(shape.rank())));
  }
  // Returns the factors of a number of elements, in random order.
  std::vector<int64_t> RandomDims(int64_t elements) {
    std::vector<int64_t> dims;
    while (elements > 1 && dims.size() < 5) {
      std::vector<int64_t> factors;
      for (int64_t f = 2; f <= elements; ++f) {
        if (elements % f == 0) factors.push_back(f);
      }
      dims.push_back(factors[Pick(factors.size())]);
      elements /= dims.back();
    }
    if (elements > 1 || dims.empty()) dims.push_back(elements);
    return dims;
  }
  ValueId Product(RowGraph& graph, ValueId a, ValueId b) {
    const Shape& left = graph.shape(a);
    if (left.rank() < 2 || left != graph.shape(b)) return a;
    BatchMatMulAttributes product;
    (Pick(2) == 0 ? product.transpose_a : product.transpose_b) = true;
    return graph.Emit(Op::kBatchMatMul, {a, b}, product);
  }
  ValueId Part(RowGraph& graph, ValueId x) {
    const Shape& shape = graph.shape(x);
    SliceAttributes part;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool cut = Pick(4) == 0 && shape[axis] > 1;
      part.starts.push_back(cut ? 1 : 0);
      part.steps.push_back(1);
      part.sizes.push_back(shape[axis] - (cut ? 1 : 0));
    }
    return graph.Emit(Op::kSlice, {x}, part);
  }
  ValueId Turn(RowGraph& graph, ValueId x) {
    std::vector<int> order(static_cast<size_t>(graph.shape(x).rank()));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random_);
    return graph.Transpose(x, order);
  }
  ValueId Next(RowGraph& graph, const std::vector<ValueId>& pool) {
    const ValueId x = pool[Pick(pool.size())];
    const ValueId other = pool[Pick(pool.size())];
    const Shape shape = graph.shape(x);
    const int axis = shape.rank() == 0 ? 0 : Axis(shape);
    if (shape.rank() == 0) return graph.Emit(Op::kTanh, {x});
    switch (Pick(9)) {
      case 0:
      case 1:
        return graph.Reshape(x, RandomDims(shape.elements()));
      case 2:
      case 3:
        return Turn(graph, x);
      case 4:
        return graph.Reduce(x, {axis}, Pick(2) == 0);
      case 5:
        return BroadcastShapes(shape, graph.shape(other)).ok()
                   ? graph.Binary(BinaryFunction::kAdd, x, other)
                   : graph.Emit(Op::kSoftmax, {x});
      case 6:
        return Product(graph, x, other);
      case 7:
        return Part(graph, x);
      default:
        return graph.Emit(Op::kCumSum, {x}, CumSumAttributes{.axis = axis});
    }
  }

 private:
  std::mt19937 random_;
};

TEST(RandomRowsTest, NothingFalseIsProven) {
  RandomRows random(7);
  int proven = 0;
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    RowGraph graph(kBatch, {2, 6});
    std::vector<ValueId> pool{graph.x(), graph.Weight("w", {2, 6}),
                              graph.Weight("v", {kBatch, 2, 6})};
    if (round % 2 == 0) pool.pop_back();
    for (int i = 0; i < 7; ++i) {
      const ValueId next = random.Next(graph, pool);
      if (graph.shape(next).elements() <= 2000) pool.push_back(next);
    }
    const ValueId last = pool.back();
    if (graph.shape(last).elements() % kBatch != 0) continue;
    graph.Output(
        graph.Reshape(last, {kBatch, graph.shape(last).elements() / kBatch}));
    const bool proof = !FindRowObstacle(graph.model(), kBatch).has_value();
    ++(proof ? proven : refused);
    if (proof) {
      EXPECT_FALSE(graph.RowsInfluenceEachOther()) << round;
    }
  }
  // Neither kind is rare.
  EXPECT_GT(proven, 50);
  EXPECT_GT(refused, 50);
}

TEST(ComputeTheSameTest, OnlyShapesOfOutputsMayDiffer) {
  Node two{.op = Op::kReshape, .attributes = ShapeAttributes{{2, 3}}};
  Node four{.op = Op::kReshape, .attributes = ShapeAttributes{{4, 3}}};
  EXPECT_TRUE(ComputeTheSame(two, four));
  two = {.op = Op::kSlice, .attributes = SliceAttributes{{0}, {1}, {2}}};
  four = {.op = Op::kSlice, .attributes = SliceAttributes{{0}, {1}, {4}}};
  EXPECT_TRUE(ComputeTheSame(two, four));
  four.attributes = SliceAttributes{{1}, {1}, {4}};
  EXPECT_FALSE(ComputeTheSame(two, four));
  two = {.op = Op::kSoftmax};
  EXPECT_TRUE(ComputeTheSame(two, two));
  two = {.op = Op::kLrn, .attributes = LrnAttributes{.alpha = 2}};
  four = {.op = Op::kLrn, .attributes = LrnAttributes{.alpha = 4}};
  EXPECT_FALSE(ComputeTheSame(two, four));
}

}  // namespace
}  // namespace gpupool::engine
