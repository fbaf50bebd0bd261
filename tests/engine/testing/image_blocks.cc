#include "tests/engine/testing/image_blocks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::testing {
namespace {

constexpr int64_t kChannels = 4;

class Block {
 public:
  Block() : x_(*builder_.Input("x", {DType::kFloat32, {2, kChannels, 8, 8}})) {}

  ValueId x() const { return x_; }
  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    auto y = builder_.EmitOne(op, inputs, std::move(attributes));
    GPUPOOL_CHECK(y.ok());
    return *y;
  }
  ValueId Weight(const Shape& shape) {
    return *builder_.Persistent(absl::StrCat("w", weights_++),
                                {DType::kFloat32, shape}, MemoryClass::kWeight);
  }
  ValueId Indices(std::vector<double> numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    return builder_.Constant({DType::kInt64, {count}}, std::move(numbers));
  }
  // Adds a convolution that keeps height and width.
  ValueId Conv(ValueId x, int64_t filters, int64_t kernel = 3) {
    const int64_t in = graph_.value(x).shape[1];
    return Emit(Op::kConv2d, {x, Weight({filters, in, kernel, kernel})},
                Conv2dAttributes{.padding = {kernel / 2, kernel / 2}});
  }
  ValueId Unary(UnaryFunction function, ValueId x, double alpha = 0,
                double beta = 0) {
    return Emit(Op::kUnary, {x}, UnaryAttributes{function, alpha, beta});
  }
  ValueId Binary(BinaryFunction function, ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
  }
  Graph Take(ValueId y) {
    graph_.AddOutput("y", y);
    return std::move(graph_);
  }

 private:
  Graph graph_;
  GraphBuilder builder_{&graph_};
  ValueId x_;
  int weights_ = 0;
};

// He et al. 2015, arXiv 1512.03385.
Graph Residual() {
  Block b;
  const ValueId x = b.Conv(b.x(), 6);
  const ValueId sum = b.Emit(Op::kAdd, {b.Conv(b.Emit(Op::kRelu, {x}), 6), x});
  return b.Take(b.Conv(b.Emit(Op::kRelu, {sum}), 3));
}

// Howard et al. 2019, arXiv 1905.02244: squeeze and excite, hard swish.
Graph SqueezeAndExcite() {
  Block b;
  const ValueId x = b.Unary(UnaryFunction::kHardSwish, b.Conv(b.x(), 6));
  const ValueId squeezed = b.Emit(
      Op::kReduce, {x}, ReduceAttributes{ReduceFunction::kMean, {2, 3}, true});
  const ValueId hidden = b.Emit(Op::kRelu, {b.Conv(squeezed, 2, 1)});
  const ValueId gate =
      b.Unary(UnaryFunction::kHardSigmoid, b.Conv(hidden, 6, 1), 1.0 / 6, 0.5);
  const ValueId scaled = b.Binary(BinaryFunction::kMultiply, gate, x);
  return b.Take(b.Conv(scaled, 3));
}

// A gate of [N, C] that a reshape turns into an image, and a weight with a
// factor per channel.
Graph GateOfVectors() {
  Block b;
  const ValueId x = b.Conv(b.x(), 6);
  const ValueId pooled = b.Emit(Op::kGlobalAvgPool, {x});
  const ValueId gate = b.Emit(Op::kReshape, {b.Emit(Op::kSigmoid, {pooled})},
                              ShapeAttributes{{2, 6, 1, 1}});
  const ValueId scaled = b.Binary(BinaryFunction::kMultiply, x, gate);
  const ValueId factor =
      b.Binary(BinaryFunction::kMultiply, scaled, b.Weight({1, 6, 1, 1}));
  const ValueId shifted =
      b.Binary(BinaryFunction::kAdd, b.Weight({6, 1, 1}), factor);
  return b.Take(b.Conv(shifted, 3));
}

// Huang et al. 2016, arXiv 1608.06993.
Graph Dense() {
  Block b;
  const ValueId x = b.Conv(b.x(), 6);
  const ValueId y = b.Conv(b.Emit(Op::kRelu, {x}), 5);
  const ValueId joined = b.Emit(Op::kConcat, {x, y}, AxisAttributes{1});
  const ValueId pooled =
      b.Emit(Op::kAvgPool, {b.Emit(Op::kRelu, {joined})},
             Pool2dAttributes{.kernel = {2, 2}, .stride = {2, 2}});
  return b.Take(b.Conv(pooled, 3));
}

ResizeAxis Doubled(int axis, int64_t input) {
  ResizeAxis resize{.axis = axis, .size = 2 * input, .taps = 2};
  for (int64_t i = 0; i < resize.size; ++i) {
    const int64_t other = i % 2 == 0 ? i / 2 - 1 : i / 2 + 1;
    resize.indices.push_back(i / 2);
    resize.indices.push_back(std::min(std::max<int64_t>(other, 0), input - 1));
    resize.weights.push_back(0.75);
    resize.weights.push_back(0.25);
  }
  return resize;
}

// Ronneberger et al. 2015, arXiv 1505.04597, with both kinds of upsampling, a
// crop and a pad.
Graph UNet() {
  Block b;
  const ValueId skip = b.Conv(b.x(), 6);
  const ValueId down =
      b.Emit(Op::kMaxPool, {skip},
             Pool2dAttributes{.kernel = {2, 2}, .stride = {2, 2}});
  const ValueId deep = b.Conv(down, 5);
  const ValueId grown = b.Emit(
      Op::kConv2dInputGrad, {deep, b.Weight({5, 6, 2, 2})},
      Conv2dGradAttributes{.conv = {.stride = {2, 2}}, .result = {2, 6, 8, 8}});
  const ValueId resized = b.Emit(
      Op::kResize, {deep}, ResizeAttributes{{Doubled(2, 4), Doubled(3, 4)}});
  const ValueId cropped =
      b.Emit(Op::kSlice, {skip},
             SliceAttributes{{0, 0, 1, 2}, {1, 1, 1, 1}, {2, 6, 6, 5}});
  const ValueId padded =
      b.Emit(Op::kPad, {cropped}, PadAttributes{{0, 0, 1, 1}, {0, 0, 1, 2}});
  const ValueId joined =
      b.Emit(Op::kConcat, {grown, resized, padded}, AxisAttributes{1});
  return b.Take(b.Conv(joined, 3));
}

// Liu et al. 2022, arXiv 2201.03545: the cells of an image as rows of a layer
// norm and of products.
Graph CellsAsRows() {
  Block b;
  const ValueId x = b.Conv(b.x(), 6);
  const auto transpose = [&b](ValueId v, std::vector<int> permutation) {
    return b.Emit(Op::kTranspose, {v},
                  TransposeAttributes{std::move(permutation)});
  };
  const auto reshape = [&b](ValueId v, const Shape& shape) {
    return b.Emit(Op::kReshape, {v}, ShapeAttributes{shape});
  };
  const ValueId cells = transpose(x, {0, 2, 3, 1});
  const ValueId rows = reshape(cells, {2 * 8 * 8, 6});
  const ValueId product =
      b.Emit(Op::kMatMul, {rows, b.Weight({6, 6})}, MatMulAttributes{});
  const ValueId image = transpose(
      reshape(b.Emit(Op::kGelu, {product}, GeluAttributes{}), {2, 8, 8, 6}),
      {0, 3, 1, 2});
  const ValueId scaled =
      b.Binary(BinaryFunction::kMultiply, image, b.Weight({6, 1, 1}));
  return b.Take(b.Conv(b.Emit(Op::kAdd, {scaled, x}), 3));
}

// Zhang et al. 2017, arXiv 1707.01083: channels of a few groups are mixed.
Graph ChosenChannels() {
  Block b;
  const ValueId x = b.Conv(b.x(), 6);
  const ValueId order = b.Indices({0, 3, 1, 4, 2, 5});
  const ValueId half = b.Indices({5, -4, 1});
  const ValueId mixed = b.Emit(Op::kGather, {x, order}, AxisAttributes{1});
  const ValueId other = b.Emit(Op::kGather, {mixed, half}, AxisAttributes{1});
  const ValueId rows =
      b.Emit(Op::kGather, {x, b.Indices({7, 0, 0})}, AxisAttributes{2});
  const ValueId joined = b.Emit(Op::kConcat, {x, rows}, AxisAttributes{2});
  const ValueId cut =
      b.Emit(Op::kSlice, {joined},
             SliceAttributes{{0, 0, 3, 0}, {1, 1, 1, 1}, {2, 6, 8, 8}});
  return b.Take(
      b.Conv(b.Emit(Op::kConcat, {mixed, other, cut}, AxisAttributes{1}), 3));
}

}  // namespace

const std::vector<ImageBlock>& ImageBlocks() {
  static const std::vector<ImageBlock> blocks{
      {"Residual", Residual},
      {"SqueezeAndExcite", SqueezeAndExcite},
      {"GateOfVectors", GateOfVectors},
      {"Dense", Dense},
      {"UNet", UNet},
      {"CellsAsRows", CellsAsRows},
      {"ChosenChannels", ChosenChannels}};
  return blocks;
}

}  // namespace gpupool::engine::testing
