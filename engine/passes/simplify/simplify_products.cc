// Simplifies products: transposes, scales, biases and the reshapes around them.
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/passes/simplify/simplify.h"

namespace gpupool::engine {
namespace {

// Returns whether the permutation swaps just the last two axes.
bool SwapsLastTwo(const std::vector<int>& permutation) {
  const size_t rank = permutation.size();
  if (rank < 2) return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (permutation[i] != static_cast<int>(i)) return false;
  }
  return permutation[rank - 2] == static_cast<int>(rank - 1);
}

// Skips a transpose of the last two axes and flips the flag instead.
void TakeTranspose(Sweep& sweep, ValueId& operand, bool& flag) {
  const Node* before = sweep.Producer(operand, Op::kTranspose);
  if (before == nullptr ||
      !SwapsLastTwo(before->get<TransposeAttributes>().permutation)) {
    return;
  }
  operand = before->inputs[0];
  flag = !flag;
  sweep.MarkChanged();
}

// x and a finite factor of a value x * factor, whose node nobody else reads.
struct Scaled {
  ValueId x;
  double factor = 1;
};
std::optional<Scaled> FindScale(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id, Op::kBinary);
  if (node == nullptr || !sweep.IsOnlyReaderOf(id)) return std::nullopt;
  const BinaryFunction function = node->get<BinaryAttributes>().function;
  const bool divide = function == BinaryFunction::kDivide;
  if (!divide && function != BinaryFunction::kMultiply) return std::nullopt;
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    if (divide && operand == 1) break;
    const ValueId x = node->inputs[operand];
    const auto number = sweep.Number(node->inputs[1 - operand]);
    if (!number.has_value() ||
        sweep.value(x).type() != sweep.value(id).type()) {
      continue;
    }
    const double factor = divide ? 1 / *number : *number;
    // factor - factor is NaN for infinities and NaN.
    if (factor != 0 && factor - factor == 0) return Scaled{x, factor};
  }
  return std::nullopt;
}

// Finds a scale before a transpose, since transpose(x * c) is transpose(x) * c.
absl::StatusOr<std::optional<Scaled>> FindScaleBehindTranspose(Sweep& sweep,
                                                               ValueId id) {
  const Node* before = sweep.Producer(id, Op::kTranspose);
  if (before == nullptr || !sweep.IsOnlyReaderOf(id)) return std::nullopt;
  const auto scaled = FindScale(sweep, before->inputs[0]);
  if (!scaled.has_value()) return std::nullopt;
  const Attributes permutation = before->attributes;
  ASSIGN_OR_RETURN(const ValueId transposed,
                   sweep.Emit(Op::kTranspose, {scaled->x}, permutation));
  return Scaled{transposed, scaled->factor};
}

absl::Status TakeScales(Sweep& sweep, Node& node) {
  auto& matmul = std::get<BatchMatMulAttributes>(node.attributes);
  if (!IsFloating(sweep.value(node.inputs[0]).dtype)) return absl::OkStatus();
  for (ValueId& operand : node.inputs) {
    std::optional<Scaled> scaled = FindScale(sweep, operand);
    if (!scaled.has_value()) {
      ASSIGN_OR_RETURN(scaled, FindScaleBehindTranspose(sweep, operand));
    }
    if (!scaled.has_value()) continue;
    operand = scaled->x;
    matmul.scale *= scaled->factor;
    sweep.MarkChanged();
  }
  return absl::OkStatus();
}

// Turns a [..., m, k] times weights [k, n] into one plain product of all rows.
absl::Status MakePlainProduct(Sweep& sweep, Node& node) {
  const auto matmul = node.get<BatchMatMulAttributes>();
  const Value& a = sweep.value(node.inputs[0]);
  const Shape& b = sweep.shape(node.inputs[1]);
  const bool flat = a.shape.rank() == 2;
  if (!IsFloating(a.dtype) || b.rank() != 2 || matmul.scale != 1 ||
      (matmul.transpose_a && !flat) || a.shape.elements() == 0 ||
      b.elements() == 0) {
    return absl::OkStatus();
  }
  ValueId rows = node.inputs[0];
  if (!flat) {
    const int64_t inner = a.shape[a.shape.rank() - 1];
    ASSIGN_OR_RETURN(
        rows, sweep.Reshape(rows, Shape{a.shape.elements() / inner, inner}));
  }
  ASSIGN_OR_RETURN(
      const ValueId product,
      sweep.Emit(Op::kMatMul, {rows, node.inputs[1]},
                 MatMulAttributes{matmul.transpose_a, matmul.transpose_b, {}}));
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Reshape(product, sweep.shape(node.outputs[0])));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

absl::Status SimplifyBatchMatMul(Sweep& sweep, Node& node) {
  RETURN_IF_ERROR(TakeScales(sweep, node));
  auto& matmul = std::get<BatchMatMulAttributes>(node.attributes);
  TakeTranspose(sweep, node.inputs[0], matmul.transpose_a);
  TakeTranspose(sweep, node.inputs[1], matmul.transpose_b);
  return MakePlainProduct(sweep, node);
}

// Moves the factor of (a b) * c into the product if nobody else reads a b.
absl::Status ScaleOfProduct(Sweep& sweep, Node& node) {
  for (const ValueId id : node.inputs) {
    const Node* product = sweep.Producer(id, Op::kBatchMatMul);
    if (product == nullptr || !sweep.IsOnlyReaderOf(id) ||
        sweep.value(id).type() != sweep.value(node.outputs[0]).type() ||
        !IsFloating(sweep.value(id).dtype)) {
      continue;
    }
    const bool divide =
        node.get<BinaryAttributes>().function == BinaryFunction::kDivide;
    if (divide && id != node.inputs[0]) continue;
    const auto number = sweep.Number(node.inputs[id == node.inputs[0] ? 1 : 0]);
    if (!number.has_value()) continue;
    const double factor = divide ? 1 / *number : *number;
    if (factor == 0 || factor - factor != 0) continue;
    auto matmul = product->get<BatchMatMulAttributes>();
    matmul.scale *= factor;
    const ValueIds operands = product->inputs;
    ASSIGN_OR_RETURN(const ValueId scaled,
                     sweep.Emit(Op::kBatchMatMul, operands, matmul));
    sweep.Replace(node, scaled);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Returns the axis of the channels in an op's result.
int ChannelAxis(Op op, const Shape& y) {
  return op == Op::kMatMul ? y.rank() - 1 : 1;
}

// Returns whether `bias` broadcasts to y and has one number for each channel.
bool IsPerChannel(const Shape& bias, const Shape& y, int channel_axis) {
  const int missing = y.rank() - bias.rank();
  if (missing < 0 || bias.elements() != y[channel_axis]) return false;
  return channel_axis >= missing &&
         bias[channel_axis - missing] == y[channel_axis];
}

Epilogue* EpilogueOf(Node& node) {
  if (node.op == Op::kMatMul) {
    return &std::get<MatMulAttributes>(node.attributes).epilogue;
  }
  if (node.op == Op::kConv2d) {
    return &std::get<Conv2dAttributes>(node.attributes).epilogue;
  }
  return nullptr;
}

bool KnowsNoBias(const Epilogue& epilogue) { return epilogue == Epilogue{}; }

// The product that makes a value, perhaps through a reshape that keeps its
// columns.
struct Product {
  Node node;  // a copy
  bool reshaped = false;
};
std::optional<Product> FindProduct(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id);
  if (node == nullptr || !sweep.IsOnlyReaderOf(id)) return std::nullopt;
  const bool reshaped = node->op == Op::kReshape;
  if (reshaped) {
    const ValueId x = node->inputs[0];
    const Shape& before = sweep.shape(x);
    const Shape& after = sweep.shape(id);
    node = sweep.Producer(x, Op::kMatMul);
    if (node == nullptr || !sweep.IsOnlyReaderOf(x) || after.rank() < 1 ||
        after[after.rank() - 1] != before[1]) {
      return std::nullopt;
    }
  }
  if (node->op != Op::kMatMul && node->op != Op::kConv2d) return std::nullopt;
  return Product{*node, reshaped};
}

// Turns a number for each channel, added to a product, into its bias.
absl::StatusOr<bool> TakeBias(Sweep& sweep, Node& node, size_t operand) {
  const ValueId y = node.inputs[operand];
  const ValueId bias = node.inputs[1 - operand];
  std::optional<Product> product = FindProduct(sweep, y);
  if (!product.has_value() ||
      sweep.value(y).type() != sweep.value(node.outputs[0]).type() ||
      sweep.value(bias).dtype != sweep.value(y).dtype) {
    return false;
  }
  Epilogue* epilogue = EpilogueOf(product->node);
  const int axis = ChannelAxis(product->node.op, sweep.shape(y));
  if (!KnowsNoBias(*epilogue) ||
      !IsPerChannel(sweep.shape(bias), sweep.shape(y), axis)) {
    return false;
  }
  // A single row plus a row of activations is left for the residual.
  const ValueKind kind = sweep.value(bias).kind;
  if (sweep.shape(bias) == sweep.shape(y) &&
      (kind == ValueKind::kIntermediate || kind == ValueKind::kInput)) {
    return false;
  }
  epilogue->bias = true;
  ASSIGN_OR_RETURN(const ValueId row,
                   sweep.Reshape(bias, Shape{sweep.shape(bias).elements()}));
  product->node.inputs.push_back(row);
  ASSIGN_OR_RETURN(ValueId sum,
                   sweep.Emit(product->node.op, product->node.inputs,
                              product->node.attributes));
  ASSIGN_OR_RETURN(sum, sweep.Reshape(sum, sweep.shape(node.outputs[0])));
  sweep.Replace(node, sum);
  return true;
}

// Returns whether the op is a product, or one that SinkReshape puts after a
// product.
bool KeepsRows(Op op) {
  switch (op) {
    case Op::kMatMul:
    case Op::kUnary:
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kDropout:
    case Op::kAdd:
      return true;
    default:
      return false;
  }
}

// Moves a reshape of a product's rows after an elementwise node. It may then
// meet the opposite reshape and vanish.
absl::Status SinkReshape(Sweep& sweep, Node& node) {
  const size_t data = node.op == Op::kAdd ? 2 : 1;
  for (size_t i = 0; i < data; ++i) {
    const ValueId x = node.inputs[i];
    const Node* reshape = sweep.Producer(x, Op::kReshape);
    if (reshape == nullptr || !sweep.IsOnlyReaderOf(x)) continue;
    const ValueId rows = reshape->inputs[0];
    const Node* before = sweep.Producer(rows);
    if (before == nullptr || !KeepsRows(before->op) ||
        sweep.shape(rows).rank() != 2 || !sweep.IsOnlyReaderOf(rows)) {
      continue;
    }
    const Shape shape = sweep.shape(rows);
    ValueIds inputs = node.inputs;
    inputs[i] = rows;
    if (node.op == Op::kAdd) {
      ASSIGN_OR_RETURN(inputs[1 - i], sweep.Reshape(node.inputs[1 - i], shape));
    }
    ASSIGN_OR_RETURN(const ValueId y,
                     sweep.Emit(node.op, inputs, node.attributes));
    ASSIGN_OR_RETURN(const ValueId reshaped,
                     sweep.Reshape(y, sweep.shape(node.outputs[0])));
    sweep.Replace(node, reshaped);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status SimplifySumOfProduct(Sweep& sweep, Node& node) {
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    ASSIGN_OR_RETURN(const bool taken, TakeBias(sweep, node, operand));
    if (taken) return absl::OkStatus();
  }
  return node.op == Op::kAdd ? SinkReshape(sweep, node) : absl::OkStatus();
}

}  // namespace

absl::Status SimplifyProducts(Sweep& sweep, Node& node) {
  switch (node.op) {
    case Op::kMatMul: {
      auto& matmul = std::get<MatMulAttributes>(node.attributes);
      TakeTranspose(sweep, node.inputs[0], matmul.transpose_a);
      TakeTranspose(sweep, node.inputs[1], matmul.transpose_b);
      return absl::OkStatus();
    }
    case Op::kBatchMatMul:
      return SimplifyBatchMatMul(sweep, node);
    case Op::kBinary: {
      const BinaryFunction function = node.get<BinaryAttributes>().function;
      if (function == BinaryFunction::kAdd) {
        return SimplifySumOfProduct(sweep, node);
      }
      if (function == BinaryFunction::kMultiply ||
          function == BinaryFunction::kDivide) {
        return ScaleOfProduct(sweep, node);
      }
      return absl::OkStatus();
    }
    case Op::kAdd:
      return SimplifySumOfProduct(sweep, node);
    case Op::kUnary:
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kDropout:
      return SinkReshape(sweep, node);
    default:
      return absl::OkStatus();
  }
}

}  // namespace gpupool::engine
