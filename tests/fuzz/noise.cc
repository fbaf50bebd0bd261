#include "tests/fuzz/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/dice.h"

namespace gpupool::engine::fuzz {
namespace {

using NoiseNumbers = std::vector<double>;

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
constexpr double kLargestFactor = 1e18;
// The error of logarithms and of the error function near zero, which does not
// become smaller with the result.
constexpr double kAbsoluteNoise = 4e-7;

// Returns the relative size of the noise in operands of the type.
double NoiseOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return std::ldexp(1.0, -10);
    case DType::kBFloat16:
      return std::ldexp(1.0, -7);
    case DType::kFloat64:
      return std::ldexp(1.0, -50);
    default:
      return std::ldexp(1.0, -21);
  }
}

bool RoundsUnary(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
    case UnaryFunction::kSign:
    case UnaryFunction::kClip:
    case UnaryFunction::kFloor:
    case UnaryFunction::kCeil:
    case UnaryFunction::kRound:
    case UnaryFunction::kIsNan:
    case UnaryFunction::kIsInf:
    case UnaryFunction::kNot:
    case UnaryFunction::kThresholdedRelu:
      return false;
    default:
      return true;
  }
}

bool RoundsBinary(BinaryFunction function) {
  switch (function) {
    case BinaryFunction::kAdd:
    case BinaryFunction::kSubtract:
    case BinaryFunction::kMultiply:
    case BinaryFunction::kDivide:
    case BinaryFunction::kPower:
    case BinaryFunction::kModulo:
    case BinaryFunction::kRemainder:
      return true;
    default:
      return false;
  }
}

bool RoundsReduce(ReduceFunction function) {
  return function != ReduceFunction::kMax && function != ReduceFunction::kMin;
}

bool Rounds(const Node& node) {
  switch (node.op) {
    case Op::kUnary:
      return RoundsUnary(node.get<UnaryAttributes>().function);
    case Op::kBinary:
      return RoundsBinary(node.get<BinaryAttributes>().function);
    case Op::kReduce:
      return RoundsReduce(node.get<ReduceAttributes>().function);
    case Op::kReshape:
    case Op::kLayoutConvert:
    case Op::kWhere:
    case Op::kRelu:
    case Op::kArgReduce:
    case Op::kBroadcast:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kPad:
    case Op::kConcat:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kTreeWalk:
    case Op::kTopK:
    case Op::kRandom:
    case Op::kMaxPool:
      return false;
    default:
      return true;
  }
}

// Returns whether a number is outside of an integer type.
bool IsBeyond(DType dtype, double x) {
  if (std::isnan(x)) return true;
  switch (dtype) {
    case DType::kInt8:
      return x <= -129 || x >= 128;
    case DType::kUint8:
      return x <= -1 || x >= 256;
    case DType::kInt32:
      return x <= -2147483649.0 || x >= 2147483648.0;
    case DType::kInt64:
      return std::abs(x) >= kExactIntegers;
    default:
      return false;
  }
}

double Largest(const NoiseNumbers& numbers) {
  double largest = 0;
  for (const double x : numbers) largest = std::max(largest, std::abs(x));
  return largest;
}

bool HasZero(const NoiseNumbers& numbers) {
  return std::find(numbers.begin(), numbers.end(), 0.0) != numbers.end();
}

std::string WhyUndefinedCast(const Graph& graph, const Node& node,
                             const NoiseNumbers& x) {
  const DType to = graph.value(node.outputs[0]).dtype;
  for (const double number : x) {
    if (!IsFloating(to) && to != DType::kBool && IsBeyond(to, number)) {
      return absl::StrCat("a cast of ", number, " to ", DTypeName(to));
    }
  }
  return "";
}

std::string WhyUndefinedIntegers(const Node& node, DType dtype,
                                 const NoiseNumbers& a, const NoiseNumbers& b) {
  const double bits = dtype == DType::kInt64   ? 64
                      : dtype == DType::kInt32 ? 32
                                               : 8;
  const double x = Largest(a), y = Largest(b);
  switch (node.get<BinaryAttributes>().function) {
    case BinaryFunction::kDivide:
    case BinaryFunction::kModulo:
    case BinaryFunction::kRemainder:
      return HasZero(b) ? "a division of integers by zero" : "";
    case BinaryFunction::kShiftLeft:
    case BinaryFunction::kShiftRight:
      for (const double shift : b) {
        if (shift < 0 || shift >= bits) return "a shift by too many bits";
      }
      return x * std::pow(2.0, y) >= kExactIntegers ? "a large shift" : "";
    case BinaryFunction::kMultiply:
      return x * y >= kExactIntegers ? "a product beyond 2^53" : "";
    case BinaryFunction::kPower:
      for (const double exponent : b) {
        if (exponent < 0) return "a negative power of an integer";
      }
      return std::pow(std::max(x, 1.0), y) >= kExactIntegers
                 ? "a power beyond 2^53"
                 : "";
    default:
      return "";
  }
}

std::string WhyUndefinedReduce(const Node& node, const NoiseNumbers& x) {
  if (node.get<ReduceAttributes>().function != ReduceFunction::kProduct) {
    return "";
  }
  const double bound =
      std::pow(std::max(Largest(x), 1.0), static_cast<double>(x.size()));
  return bound >= kExactIntegers ? "a product beyond 2^53" : "";
}

bool HasNan(const NoiseNumbers& numbers) {
  return std::any_of(numbers.begin(), numbers.end(),
                     [](double x) { return std::isnan(x); });
}

bool AllFinite(const NoiseNumbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](double x) { return std::isfinite(x); });
}

bool IsWindowOrNorm(Op op) {
  switch (op) {
    case Op::kConv2d:
    case Op::kResize:
    case Op::kMaxPool:
    case Op::kAvgPool:
    case Op::kGlobalAvgPool:
    case Op::kLrn:
    case Op::kLayerNorm:
    case Op::kBatchNormInference:
    case Op::kBatchNormTraining:
      return true;
    default:
      return false;
  }
}

bool IsElementwise(Op op) {
  return op == Op::kUnary || op == Op::kBinary || op == Op::kAdd;
}

bool IsLimit(const Node& node) {
  if (node.op == Op::kRelu) return true;
  if (node.op == Op::kUnary) {
    const UnaryFunction f = node.get<UnaryAttributes>().function;
    return f == UnaryFunction::kClip || f == UnaryFunction::kHardSigmoid ||
           f == UnaryFunction::kHardSwish;
  }
  if (node.op == Op::kReduce) {
    return !RoundsReduce(node.get<ReduceAttributes>().function);
  }
  if (node.op != Op::kBinary) return false;
  const BinaryFunction f = node.get<BinaryAttributes>().function;
  return f == BinaryFunction::kMinimum || f == BinaryFunction::kMaximum;
}

bool IsSoftmax(Op op) {
  return op == Op::kSoftmax || op == Op::kLogSoftmax ||
         op == Op::kCrossEntropy || op == Op::kAttention;
}

// Returns why an operand of a floating node leaves the result open.
std::string WhyUndefinedOperand(const Node& node, const NoiseNumbers& x) {
  if (IsWindowOrNorm(node.op) && !AllFinite(x)) {
    return "an infinity or NaN in a window or norm";
  }
  if (IsLimit(node) && HasNan(x)) return "a limit of NaN";
  const auto is_infinite = [](double number) { return std::isinf(number); };
  if (IsSoftmax(node.op) && std::any_of(x.begin(), x.end(), is_infinite)) {
    return "a softmax of an infinity";
  }
  const auto is_large = [](double number) {
    return std::isfinite(number) && std::abs(number) > kLargestFactor;
  };
  if (Rounds(node) && !IsElementwise(node.op) &&
      std::any_of(x.begin(), x.end(), is_large)) {
    return "a large number in a sum of products";
  }
  return "";
}

std::string WhyUndefinedNode(const Graph& graph, const Node& node,
                             const std::vector<NoiseNumbers>& numbers) {
  const auto of = [&numbers](ValueId id) -> const NoiseNumbers& {
    return numbers[static_cast<size_t>(id.index)];
  };
  if (node.inputs.empty()) return "";
  const NoiseNumbers& first = of(node.inputs[0]);
  if (node.op == Op::kCast) return WhyUndefinedCast(graph, node, first);
  const bool order = node.op == Op::kArgReduce || node.op == Op::kTopK;
  if (order && HasNan(first)) return "an order of NaN";
  for (const ValueId id : node.inputs) {
    const std::string why = WhyUndefinedOperand(node, of(id));
    if (!why.empty() && IsFloating(graph.value(id).dtype)) return why;
  }
  const DType dtype = graph.value(node.outputs[0]).dtype;
  if (IsFloating(dtype) || dtype == DType::kBool) return "";
  for (const double x : of(node.outputs[0])) {
    if (std::abs(x) >= kExactIntegers) return "an integer beyond 2^53";
  }
  if (node.op == Op::kBinary) {
    return WhyUndefinedIntegers(node, dtype, first, of(node.inputs[1]));
  }
  if (node.op == Op::kReduce) return WhyUndefinedReduce(node, first);
  return "";
}

// Returns whether the node's result has an error of its own near zero.
bool HasAbsoluteError(const Node& node) {
  return node.op == Op::kLogSoftmax || node.op == Op::kCrossEntropy;
}

class NoisyCopy {
 public:
  NoisyCopy(const Graph& graph, uint64_t seed)
      : noisy_(graph), dice_(seed, 1) {}

  void Add(const Node& node) {
    Node copy = node;
    if (Rounds(node)) {
      for (ValueId& id : copy.inputs) {
        const Value& value = noisy_.value(id);
        if (!IsFloating(value.dtype) || value.shape.elements() == 0) continue;
        id = Apply(BinaryFunction::kMultiply, id, 1, NoiseOf(value.dtype));
      }
    }
    if (!HasAbsoluteError(node)) {
      nodes_.push_back(std::move(copy));
      return;
    }
    // The node writes another value, and its own value is that with noise.
    const ValueId result = node.outputs[0];
    const Value value = noisy_.value(result);
    copy.outputs[0] = noisy_.AddValue(
        {.name = NewName(), .dtype = value.dtype, .shape = value.shape});
    nodes_.push_back(copy);
    Append(BinaryFunction::kAdd, copy.outputs[0],
           NoiseAround(value, 0, kAbsoluteNoise), result);
  }

  Graph Take() {
    noisy_.mutable_nodes() = std::move(nodes_);
    return std::move(noisy_);
  }

 private:
  std::string NewName() {
    return absl::StrCat("noise ", noisy_.values().size());
  }

  // Adds a constant of numbers around `centre`.
  ValueId NoiseAround(const Value& value, double centre, double size) {
    NoiseNumbers numbers(static_cast<size_t>(value.shape.elements()));
    for (double& x : numbers) {
      const double e = size * dice_.Uniform(0.5, 1);
      x = dice_.Chance(50) ? centre + e : centre - e;
    }
    return noisy_.AddValue({.name = NewName(),
                            .dtype = value.dtype,
                            .shape = value.shape,
                            .kind = ValueKind::kConstant,
                            .constant = std::move(numbers)});
  }

  void Append(BinaryFunction function, ValueId a, ValueId b, ValueId result) {
    nodes_.push_back({.op = Op::kBinary,
                      .attributes = BinaryAttributes{.function = function},
                      .inputs = {a, b},
                      .outputs = {result}});
  }

  ValueId Apply(BinaryFunction function, ValueId id, double centre,
                double size) {
    const Value value = noisy_.value(id);
    const ValueId noise = NoiseAround(value, centre, size);
    const ValueId result = noisy_.AddValue(
        {.name = NewName(), .dtype = value.dtype, .shape = value.shape});
    Append(function, id, noise, result);
    return result;
  }

  Graph noisy_;
  Dice dice_;
  std::vector<Node> nodes_;
};

}  // namespace

Graph WithNoise(const Graph& graph, uint64_t seed) {
  NoisyCopy copy(graph, seed);
  for (const Node& node : graph.nodes()) copy.Add(node);
  return copy.Take();
}

std::string WhyUndefined(const Graph& graph,
                         const std::vector<std::vector<double>>& numbers) {
  for (const Node& node : graph.nodes()) {
    const std::string why = WhyUndefinedNode(graph, node, numbers);
    if (!why.empty()) return absl::StrCat(why, " in ", node.source);
  }
  return "";
}

}  // namespace gpupool::engine::fuzz
