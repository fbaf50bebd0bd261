// FLOPs of every op: the column `cost` of the op table. Sums and products
// saturate, because shapes of untrusted models may overflow.
#include <array>
#include <limits>

#include "engine/graph/ops.h"

namespace gpupool::engine {
namespace {

uint64_t Multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return product;
}

uint64_t Add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return sum;
}

uint64_t Elements(const TensorType& type) {
  return static_cast<uint64_t>(type.shape.elements());
}

// Returns two FLOPs for each output element and weight of its filter.
uint64_t ConvFlops(const TensorType& y, const Shape& w) {
  const auto per_output = static_cast<uint64_t>(w.elements() / w[0]);
  return Multiply(Multiply(2, Elements(y)), per_output);
}

// Returns one FLOP for each cell of each window.
uint64_t WindowFlops(const Pool2dAttributes& pool, const TensorType& y) {
  return Multiply(Elements(y), static_cast<uint64_t>(pool.kernel.cells()));
}

uint64_t EpilogueFlops(const Epilogue& epilogue, const TensorType& y) {
  const uint64_t per_element = static_cast<uint64_t>(epilogue.bias) +
                               static_cast<uint64_t>(epilogue.residual) +
                               (epilogue.activation != Activation::kNone);
  return Multiply(Elements(y), per_element);
}

// Counts one pass for each axis. Each pass reads the result of the one before.
uint64_t PassesFlops(const ResizeAttributes& resize, const Shape& input) {
  uint64_t total = 0;
  auto elements = static_cast<uint64_t>(input.elements());
  for (const ResizeAxis& axis : resize.axes) {
    if (input[axis.axis] == 0) return 0;
    elements = Multiply(elements / static_cast<uint64_t>(input[axis.axis]),
                        static_cast<uint64_t>(axis.size));
    total =
        Add(total, Multiply(elements, 2 * static_cast<uint64_t>(axis.taps)));
  }
  return total;
}

// Counts B * H * T * S scores for q [B, H, T, D], k [B, H, S, D] and v [B, H,
// S, E]. Each score costs a softmax, `by_d` products of D and `by_e` of E
// numbers.
uint64_t ScoreFlops(absl::Span<const TensorType> qkv, uint64_t by_d,
                    uint64_t by_e) {
  const auto d = static_cast<uint64_t>(qkv[0].shape[3]);
  const auto e = static_cast<uint64_t>(qkv[2].shape[3]);
  const auto keys = static_cast<uint64_t>(qkv[1].shape[2]);
  const auto queries = static_cast<uint64_t>(qkv[0].shape[0] * qkv[0].shape[1] *
                                             qkv[0].shape[2]);
  // A softmax counts as 4 FLOPs for each score.
  return Multiply(Multiply(queries, keys), 4 + 2 * (by_d * d + by_e * e));
}

struct NodeTypes {
  const Attributes& attributes;
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;

  template <typename T>
  const T& get() const {
    return std::get<T>(attributes);
  }
};

// The cost of an op: a function of the node, or FLOPs for each element.
struct Cost {
  enum class Of : uint8_t { kInput, kOutput };
  uint64_t per_element = 0;
  Of of = Of::kInput;
  uint64_t (*function)(const NodeTypes&) = nullptr;
};

constexpr Cost kFree{};
constexpr Cost PerInput(uint64_t flops) { return {flops, Cost::Of::kInput}; }
constexpr Cost PerOutput(uint64_t flops) { return {flops, Cost::Of::kOutput}; }
constexpr Cost By(uint64_t (*function)(const NodeTypes&)) {
  return {0, Cost::Of::kInput, function};
}

const Cost& CostOf(Op op);

uint64_t FusedFlops(const NodeTypes& node) {
  const auto& fused = node.get<FusedAttributes>();
  uint64_t per_element = 0;
  for (const FusedStep& step : fused.steps) {
    per_element = Add(per_element, CostOf(step.op).per_element);
  }
  return Multiply(static_cast<uint64_t>(fused.shape.elements()), per_element);
}

uint64_t MatMulFlops(const NodeTypes& node) {
  const auto& matmul = node.get<MatMulAttributes>();
  const TensorType& y = node.outputs[0];
  const int axis = matmul.transpose_a ? 0 : 1;
  const auto inner = static_cast<uint64_t>(node.inputs[0].shape[axis]);
  return Add(Multiply(Multiply(2, Elements(y)), inner),
             EpilogueFlops(matmul.epilogue, y));
}

uint64_t BatchMatMulFlops(const NodeTypes& node) {
  const auto& matmul = node.get<BatchMatMulAttributes>();
  const Shape& a = node.inputs[0].shape;
  const int axis = a.rank() - (matmul.transpose_a ? 2 : 1);
  const auto inner = static_cast<uint64_t>(a[axis]);
  return Multiply(Elements(node.outputs[0]), 2 * inner + (matmul.scale != 1));
}

uint64_t BlockedMatMulFlops(const NodeTypes& node) {
  const auto inner = static_cast<uint64_t>(node.inputs[0].shape[1]);
  return Multiply(Multiply(2, Elements(node.outputs[0])), inner);
}

// Counts one comparison for each step.
uint64_t TreeWalkFlops(const NodeTypes& node) {
  return Multiply(Elements(node.outputs[0]),
                  static_cast<uint64_t>(node.get<TreeWalkAttributes>().levels));
}

uint64_t Conv2dFlops(const NodeTypes& node) {
  const TensorType& y = node.outputs[0];
  return Add(ConvFlops(y, node.inputs[1].shape),
             EpilogueFlops(node.get<Conv2dAttributes>().epilogue, y));
}

uint64_t QuantizedConv2dFlops(const NodeTypes& node) {
  const TensorType& y = node.outputs[0];
  return Add(ConvFlops(y, node.inputs[1].shape), Multiply(2, Elements(y)));
}

uint64_t Conv2dInputGradFlops(const NodeTypes& node) {
  // A gradient has as many products as the forward pass: dy takes the place of
  // y.
  return ConvFlops(node.inputs[0], node.inputs[1].shape);
}

uint64_t Conv2dWeightGradFlops(const NodeTypes& node) {
  return ConvFlops(node.inputs[0], node.outputs[0].shape);
}

uint64_t AttentionFlops(const NodeTypes& node) {
  return ScoreFlops(node.inputs.first(3), 1, 1);
}

uint64_t AttentionGradFlops(const NodeTypes& node) {
  // The gradient recomputes the scores (D) and makes dq, dk (D each), dv and
  // the gradient of the scores (E each).
  return ScoreFlops(node.inputs.subspan(1, 3), 3, 2);
}

uint64_t ScatterFlops(const NodeTypes& node) {
  const bool adds =
      node.get<ScatterAttributes>().reduction != ScatterReduction::kNone;
  // Moving numbers costs no FLOPs.
  return adds ? Elements(node.inputs[2]) : 0;
}

uint64_t ResizeFlops(const NodeTypes& node) {
  return PassesFlops(node.get<ResizeAttributes>(), node.inputs[0].shape);
}

uint64_t ResizeGradFlops(const NodeTypes& node) {
  const auto& grad = node.get<ResizeGradAttributes>();
  return PassesFlops(grad.resize, grad.input);
}

uint64_t LrnFlops(const NodeTypes& node) {
  const auto size = static_cast<uint64_t>(node.get<LrnAttributes>().size);
  return Multiply(Elements(node.inputs[0]), Add(Multiply(2, size), 4));
}

uint64_t LrnGradFlops(const NodeTypes& node) {
  return Multiply(2, LrnFlops(node));
}

uint64_t PoolFlops(const NodeTypes& node) {
  return WindowFlops(node.get<Pool2dAttributes>(), node.outputs[0]);
}

uint64_t AvgPoolGradFlops(const NodeTypes& node) {
  return WindowFlops(node.get<Pool2dGradAttributes>().pool, node.inputs[0]);
}

uint64_t GlobalNormFlops(const NodeTypes& node) {
  uint64_t total = 0;
  for (const TensorType& input : node.inputs) {
    total = Add(total, 2 * Elements(input));
  }
  return total;
}

constexpr std::array<Cost, kOpCount> kCosts = {{
#define GPUPOOL_OP(op, name, inputs, outputs, attributes, type_rule, layout, \
                   in_place, traits, cost, ...)                              \
  cost,
#include "engine/graph/op_table.inc"
}};

const Cost& CostOf(Op op) { return kCosts[static_cast<size_t>(op)]; }

}  // namespace

uint64_t Flops(Op op, const Attributes& attributes,
               absl::Span<const TensorType> inputs,
               absl::Span<const TensorType> outputs) {
  const Cost& cost = CostOf(op);
  if (cost.function != nullptr) {
    return cost.function({attributes, inputs, outputs});
  }
  const bool of_output = cost.of == Cost::Of::kOutput;
  return Multiply(Elements(of_output ? outputs[0] : inputs[0]),
                  cost.per_element);
}

}  // namespace gpupool::engine
