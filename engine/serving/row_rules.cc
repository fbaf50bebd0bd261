#include "engine/serving/row_rules.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gpupool::engine {
namespace {

using Facts = std::vector<RowFacts>;
using Axes = std::vector<int>;

constexpr int kWhole = -1;  // RowOperand::to: the whole axis counts

// Returns the axes 0, 1, ... that begin at `first`.
Axes AxesFrom(int first, int count) {
  Axes axes(static_cast<size_t>(count));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

// One node and what is known of its inputs.
class Rules {
 public:
  Rules(const Graph& graph, int position, int64_t batch,
        absl::Span<const RowFacts> facts)
      : graph_(graph),
        node_(graph.nodes()[static_cast<size_t>(position)]),
        position_(position),
        batch_(batch),
        facts_(facts) {}

  Facts Apply() const;

 private:
  const Shape& in(size_t i) const {
    return graph_.value(node_.inputs[i]).shape;
  }
  const Shape& out(size_t i = 0) const {
    return graph_.value(node_.outputs[i]).shape;
  }
  const RowFacts& facts(size_t i) const {
    return facts_[static_cast<size_t>(node_.inputs[i].index)];
  }
  RowOperand Operand(size_t i, Axes to) const {
    return {facts(i), in(i), std::move(to)};
  }
  // Returns an operand that is aligned with the result at the last axes.
  RowOperand Aligned(size_t i) const {
    return Operand(i, AxesFrom(out().rank() - in(i).rank(), in(i).rank()));
  }
  // Returns an operand at the result's own axes. Those in `whole` count as a
  // whole.
  RowOperand InPlace(size_t i, uint32_t whole) const {
    Axes to = AxesFrom(0, in(i).rank());
    for (int& axis : to) {
      if ((whole & AxisBit(axis)) != 0) axis = kWhole;
    }
    return Operand(i, std::move(to));
  }
  RowFacts Join(const std::vector<RowOperand>& operands, uint32_t own = 0,
                size_t output = 0) const {
    return JoinAs(out(output), operands, own);
  }
  RowFacts JoinAs(const Shape& shape, const std::vector<RowOperand>& operands,
                  uint32_t own) const {
    return JoinedFacts(
        {.shape = shape, .batch = batch_, .node = position_, .own = own},
        operands);
  }
  // Gives these facts to all outputs.
  Facts Each(const RowFacts& facts) const {
    return Facts(node_.outputs.size(), facts);
  }

  Facts Unknown() const;
  Facts Elementwise() const;
  // Keeps every place except along the axes `whole`.
  Facts Keep(uint32_t whole) const;
  Facts MatMul() const;
  Facts BatchMatMul() const;
  Facts Conv() const;
  Facts ConvInputGrad() const;
  Facts Attention() const;
  Facts Reduce(const std::vector<int>& axes, bool keep_dims) const;
  Facts Transpose() const;
  Facts Slice() const;
  Facts Pad() const;
  Facts Resize() const;
  Facts Gather() const;
  Facts GatherNd() const;
  Facts TreeWalk() const;
  Facts BlockedMatMul() const;
  Facts ChannelNorm() const;
  Facts BatchNormTraining() const;
  Facts LayerNorm() const;

  const Graph& graph_;
  const Node& node_;
  const int position_;
  const int64_t batch_;
  const absl::Span<const RowFacts> facts_;
};

// Assumes of an op without a rule that it mixes rows. The result is the same
// for all batches only if all inputs are.
Facts Rules::Unknown() const {
  RowFacts unknown{.kind = RowFacts::Kind::kSame};
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    if (facts(i).kind == RowFacts::Kind::kSame) continue;
    unknown = {.node = position_};
    if (facts(i).kind == RowFacts::Kind::kMixed) unknown.node = facts(i).node;
    break;
  }
  return Each(unknown);
}

Facts Rules::Elementwise() const {
  std::vector<RowOperand> operands;
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    operands.push_back(Aligned(i));
  }
  return Each(Join(operands));
}

Facts Rules::Keep(uint32_t whole) const {
  std::vector<RowOperand> operands;
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    operands.push_back(InPlace(i, whole));
  }
  return Each(Join(operands, whole));
}

Facts Rules::MatMul() const {
  const auto& matmul = node_.get<MatMulAttributes>();
  // The inner axis is summed over, so it counts as a whole. The other axis of
  // each matrix is an axis of the result.
  const Axes a = matmul.transpose_a ? Axes{kWhole, 0} : Axes{0, kWhole};
  const Axes b = matmul.transpose_b ? Axes{1, kWhole} : Axes{kWhole, 1};
  std::vector<RowOperand> operands{Operand(0, a), Operand(1, b)};
  for (size_t i = 2; i < node_.inputs.size(); ++i) {
    operands.push_back(Aligned(i));
  }
  return Each(Join(operands));
}

Facts Rules::BatchMatMul() const {
  const auto& matmul = node_.get<BatchMatMulAttributes>();
  const int rank = out().rank();
  std::vector<RowOperand> operands{Aligned(0), Aligned(1)};
  // Positions of the inner axes, counted from the end.
  const auto inner = [](RowOperand& operand, bool last) {
    operand.to[operand.to.size() - (last ? 1 : 2)] = kWhole;
  };
  inner(operands[0], !matmul.transpose_a);
  inner(operands[1], matmul.transpose_b);
  if (matmul.transpose_a) operands[0].to.back() = rank - 2;
  if (matmul.transpose_b) {
    operands[1].to[operands[1].to.size() - 2] = rank - 1;
  }
  return Each(Join(operands));
}

Facts Rules::Conv() const {
  const int rank = out().rank();
  Axes image(static_cast<size_t>(rank), kWhole);
  image[0] = 0;
  Axes weights(static_cast<size_t>(rank), kWhole);
  // The first axis of the weights makes the channels of the result.
  weights[0] = 1;
  std::vector<RowOperand> operands{Operand(0, image), Operand(1, weights)};
  if (node_.op == Op::kQuantizedConv2d) {
    operands.push_back(Operand(2, {1}));
    operands.push_back(Operand(3, {1}));
    return Each(Join(operands, kAllAxes & ~3u));
  }
  const Epilogue& epilogue = node_.get<Conv2dAttributes>().epilogue;
  if (epilogue.bias) operands.push_back(Operand(2, {1}));
  if (epilogue.residual) {
    operands.push_back(Operand(node_.inputs.size() - 1, AxesFrom(0, rank)));
  }
  return Each(Join(operands, kAllAxes & ~3u));
}

Facts Rules::ConvInputGrad() const {
  const auto rank = static_cast<size_t>(out().rank());
  Axes image(rank, kWhole);
  image[0] = 0;
  return Each(Join({Operand(0, image), Operand(1, Axes(rank, kWhole))},
                   kAllAxes & ~1u));
}

// Allows rows along the first two axes only, since queries see keys by their
// position.
Facts Rules::Attention() const {
  const Axes heads{0, 1, kWhole, kWhole};
  std::vector<RowOperand> operands{Operand(0, heads), Operand(1, heads),
                                   Operand(2, heads)};
  if (node_.inputs.size() > 3) {
    const int rank = in(3).rank();
    Axes mask = AxesFrom(4 - rank, rank);
    for (int& axis : mask) axis = axis < 2 ? axis : kWhole;
    operands.push_back(Operand(3, mask));
  }
  Facts outputs;
  for (size_t i = 0; i < node_.outputs.size(); ++i) {
    outputs.push_back(Join(operands, kAllAxes & ~3u, i));
  }
  return outputs;
}

Facts Rules::Reduce(const std::vector<int>& axes, bool keep_dims) const {
  Axes to;
  int next = 0;
  for (int axis = 0; axis < in(0).rank(); ++axis) {
    const bool gone = std::find(axes.begin(), axes.end(), axis) != axes.end();
    to.push_back(gone ? kWhole : next);
    if (!gone || keep_dims) ++next;
  }
  return Each(Join({Operand(0, to)}));
}

Facts Rules::Transpose() const {
  const auto& permutation = node_.get<TransposeAttributes>().permutation;
  Axes to(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    to[static_cast<size_t>(permutation[i])] = static_cast<int>(i);
  }
  return Each(Join({Operand(0, to)}));
}

Facts Rules::Slice() const {
  const auto& slice = node_.get<SliceAttributes>();
  const bool same = facts(0).kind == RowFacts::Kind::kSame;
  uint32_t whole = 0;
  for (int axis = 0; axis < in(0).rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const bool kept = slice.starts[i] == 0 && slice.steps[i] == 1 &&
                      slice.sizes[i] == in(0)[axis];
    // Parts of an even axis are even.
    const bool even = same && (facts(0).even & AxisBit(axis)) != 0;
    if (!kept && !even) whole |= AxisBit(axis);
  }
  return Keep(whole);
}

Facts Rules::Pad() const {
  const auto& pad = node_.get<PadAttributes>();
  uint32_t whole = 0;
  for (int axis = 0; axis < in(0).rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    // Padding shifts places, so rows along this axis are lost.
    if (pad.before[i] != 0 || pad.after[i] != 0) whole |= AxisBit(axis);
  }
  return Keep(whole);
}

Facts Rules::Resize() const {
  uint32_t whole = 0;
  for (const ResizeAxis& axis : node_.get<ResizeAttributes>().axes) {
    whole |= AxisBit(axis.axis);
  }
  return Keep(whole);
}

Facts Rules::Gather() const {
  const int axis = node_.get<AxisAttributes>().axis;
  const int added = in(1).rank() - 1;
  Axes to;
  for (int i = 0; i < in(0).rank(); ++i) {
    to.push_back(i < axis ? i : i == axis ? kWhole : i + added);
  }
  return Each(Join({Operand(0, to), Operand(1, AxesFrom(axis, in(1).rank()))}));
}

Facts Rules::GatherNd() const {
  const int shared = node_.get<GatherNdAttributes>().batch_dims;
  const int tuples = in(1).rank() - 1;
  const int indexed = shared + static_cast<int>(in(1)[tuples]);
  Axes to;
  for (int i = 0; i < in(0).rank(); ++i) {
    to.push_back(i < shared ? i : i < indexed ? kWhole : tuples + i - indexed);
  }
  Axes indices = AxesFrom(0, tuples);
  indices.push_back(kWhole);
  return Each(Join({Operand(0, to), Operand(1, indices)}));
}

Facts Rules::TreeWalk() const {
  return Each(
      Join({Operand(0, {0, kWhole}), Operand(1, {kWhole}), Operand(2, {kWhole}),
            Operand(3, {kWhole}), Operand(4, {kWhole}), Operand(5, {1})}));
}

Facts Rules::BlockedMatMul() const {
  std::vector<RowOperand> operands{Operand(0, {0, kWhole}),
                                   Operand(1, {1, kWhole, kWhole})};
  for (size_t i = 2; i < node_.inputs.size(); ++i) {
    operands.push_back(Operand(i, {1, kWhole}));
  }
  return Each(Join(operands));
}

// Handles norms whose statistics are inputs. Each cell depends on those of its
// own channel.
Facts Rules::ChannelNorm() const {
  std::vector<RowOperand> operands{InPlace(0, 0)};
  for (size_t i = 1; i < node_.inputs.size(); ++i) {
    operands.push_back(Operand(i, {1}));
  }
  return Each(Join(operands));
}

Facts Rules::BatchNormTraining() const {
  const std::vector<RowOperand> operands{InPlace(0, kAllAxes & ~2u),
                                         Operand(1, {1}), Operand(2, {1})};
  Axes channel(static_cast<size_t>(in(0).rank()), kWhole);
  channel[1] = 0;
  const RowFacts statistics = Join({Operand(0, channel)}, 0, 1);
  return {Join(operands, kAllAxes & ~2u), statistics, statistics};
}

Facts Rules::LayerNorm() const {
  const int last = out().rank() - 1;
  const RowOperand x = InPlace(0, AxisBit(last));
  Facts outputs{
      Join({x, Operand(1, {kWhole}), Operand(2, {kWhole})}, AxisBit(last))};
  if (node_.outputs.size() == 1) return outputs;
  // The statistics are [product of the other dimensions].
  const auto rows =
      Shape::Create(out().dims().first(static_cast<size_t>(last)));
  if (!rows.ok()) return Unknown();
  outputs.resize(3, ReshapedFacts(JoinAs(*rows, {x}, 0), *rows, out(1)));
  return outputs;
}

Facts Rules::Apply() const {
  switch (node_.op) {
    case Op::kReshape:
      return {ReshapedFacts(facts(0), in(0), out())};
    case Op::kLayoutConvert:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kAdd:
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kScaleShift:
    case Op::kBroadcast:
    case Op::kQuantize:
    case Op::kDequantize:
    case Op::kQuantizedAdd:
      return Elementwise();
    case Op::kMatMul:
      return MatMul();
    case Op::kConv2d:
    case Op::kQuantizedConv2d:
      return Conv();
    case Op::kConv2dInputGrad:
      return ConvInputGrad();
    case Op::kBatchMatMul:
      return BatchMatMul();
    case Op::kAttention:
      return Attention();
    case Op::kReduce: {
      const auto& reduce = node_.get<ReduceAttributes>();
      return Reduce(reduce.axes, reduce.keep_dims);
    }
    case Op::kArgReduce: {
      const auto& reduce = node_.get<ArgReduceAttributes>();
      return Reduce({reduce.axis}, reduce.keep_dims);
    }
    case Op::kCumSum:
      return Keep(AxisBit(node_.get<CumSumAttributes>().axis));
    case Op::kTranspose:
      return Transpose();
    case Op::kSlice:
      return Slice();
    case Op::kPad:
      return Pad();
    case Op::kConcat:
    case Op::kGatherElements:
      return Keep(AxisBit(node_.get<AxisAttributes>().axis));
    case Op::kGather:
      return Gather();
    case Op::kGatherNd:
      return GatherNd();
    case Op::kTreeWalk:
      return TreeWalk();
    case Op::kBlockedMatMul:
      return BlockedMatMul();
    case Op::kScatterElements:
      return Keep(AxisBit(node_.get<ScatterAttributes>().axis));
    case Op::kTopK:
      return Keep(AxisBit(node_.get<TopKAttributes>().axis));
    case Op::kResize:
      return Resize();
    case Op::kLrn:
      return Keep(AxisBit(1));
    case Op::kMaxPool:
    case Op::kAvgPool:
      return Keep(kAllAxes & ~3u);
    case Op::kGlobalAvgPool:
      return Reduce({2, 3}, false);
    case Op::kBatchNormTraining:
      return BatchNormTraining();
    case Op::kBatchNormInference:
      return ChannelNorm();
    case Op::kLayerNorm:
      return LayerNorm();
    case Op::kSoftmax:
    case Op::kLogSoftmax:
      return Keep(AxisBit(in(0).rank() - 1));
    default:
      return Unknown();
  }
}

}  // namespace

std::vector<RowFacts> OutputFacts(const Graph& graph, int position,
                                  int64_t batch,
                                  absl::Span<const RowFacts> facts) {
  return Rules(graph, position, batch, facts).Apply();
}

bool ComputeTheSame(const Node& a, const Node& b) {
  if (a.attributes == b.attributes) return true;
  // The attributes of these ops are shapes, which differ between batches.
  if (a.op == Op::kReshape || a.op == Op::kBroadcast) return true;
  if (a.op == Op::kSlice) {
    const auto& one = a.get<SliceAttributes>();
    const auto& other = b.get<SliceAttributes>();
    return one.starts == other.starts && one.steps == other.steps;
  }
  if (a.op != Op::kConv2dInputGrad) return false;
  const auto& one = a.get<Conv2dGradAttributes>();
  const auto& other = b.get<Conv2dGradAttributes>();
  return one.conv == other.conv && one.bias_grad == other.bias_grad;
}

}  // namespace gpupool::engine
