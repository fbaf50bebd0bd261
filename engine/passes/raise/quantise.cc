#include "engine/passes/raise/quantise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/passes/rewrite/rewrite.h"
#include "engine/passes/rewrite/sweep.h"

namespace gpupool::engine {
namespace {

bool IsCodeType(DType dtype) {
  return dtype == DType::kUint8 || dtype == DType::kInt8;
}

int LeastCode(DType dtype) { return dtype == DType::kUint8 ? 0 : -128; }
int MostCode(DType dtype) { return dtype == DType::kUint8 ? 255 : 127; }

// Returns the number as a zero point of that type.
std::optional<int> ZeroOf(std::optional<double> number, DType dtype) {
  if (!number.has_value() || *number != std::floor(*number) ||
      *number < LeastCode(dtype) || *number > MostCode(dtype)) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

bool IsScale(std::optional<double> number) {
  return number.has_value() && *number >= std::numeric_limits<float>::min() &&
         *number <= std::numeric_limits<float>::max();
}

// Returns whether the value is made of weights and constants alone, in a few
// steps. These run once, at load. The bound keeps the work small in files that
// read values very often.
bool IsOfWeights(const Sweep& sweep, ValueId id) {
  constexpr size_t kMostValues = 64;
  ValueIds open{id};
  for (size_t i = 0; i < open.size(); ++i) {
    if (IsKnownAtLoad(sweep.value(open[i]))) continue;
    const Node* node = sweep.Producer(open[i]);
    if (node == nullptr || !Info(node->op).pure || node->inputs.empty() ||
        open.size() + node->inputs.size() > kMostValues) {
      return false;
    }
    open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return true;
}

// Returns the node that makes the value if it is that function.
const Node* BinaryBehind(const Sweep& sweep, ValueId id,
                         BinaryFunction function) {
  const Node* node = sweep.Producer(id, Op::kBinary);
  return node != nullptr && node->get<BinaryAttributes>().function == function
             ? node
             : nullptr;
}
const Node* UnaryBehind(const Sweep& sweep, ValueId id,
                        UnaryFunction function) {
  const Node* node = sweep.Producer(id, Op::kUnary);
  return node != nullptr && node->get<UnaryAttributes>().function == function
             ? node
             : nullptr;
}

// A value of codes, and their meaning.
struct CodedValue {
  ValueId codes;
  DequantizeAttributes meaning;
};

// Finds the codes whose numbers are `number - zero` before they are scaled.
std::optional<CodedValue> FindCodes(const Sweep& sweep, ValueId centered) {
  std::optional<double> zero = 0;
  const Node* node = BinaryBehind(sweep, centered, BinaryFunction::kSubtract);
  if (node != nullptr) {
    zero = sweep.Number(node->inputs[1]);
    centered = node->inputs[0];
  }
  node = sweep.Producer(centered, Op::kCast);
  if (node == nullptr) return std::nullopt;
  const ValueId codes = node->inputs[0];
  const DType dtype = sweep.value(codes).dtype;
  if (!IsCodeType(dtype)) return std::nullopt;
  const std::optional<int> exact = ZeroOf(zero, dtype);
  if (!exact.has_value()) return std::nullopt;
  return CodedValue{codes, {.scale = 1, .zero = *exact}};
}

// (codes - zero) * scale becomes dequantize.
absl::Status TakeDequantize(Sweep& sweep, Node& node) {
  if (node.op != Op::kBinary ||
      node.get<BinaryAttributes>().function != BinaryFunction::kMultiply) {
    return absl::OkStatus();
  }
  const std::optional<double> scale = sweep.Number(node.inputs[1]);
  std::optional<CodedValue> x = FindCodes(sweep, node.inputs[0]);
  const Value& y = sweep.value(node.outputs[0]);
  if (!IsScale(scale) || !x.has_value() || y.dtype != DType::kFloat32 ||
      y.shape != sweep.shape(x->codes) || IsOfWeights(sweep, x->codes)) {
    return absl::OkStatus();
  }
  x->meaning.scale = *scale;
  ASSIGN_OR_RETURN(const ValueId numbers,
                   sweep.Emit(Op::kDequantize, {x->codes}, x->meaning));
  sweep.Replace(node, numbers);
  return absl::OkStatus();
}

// Returns the codes behind a value that dequantize makes.
std::optional<CodedValue> Dequantized(const Sweep& sweep, ValueId id) {
  const Node* node = sweep.Producer(id, Op::kDequantize);
  if (node == nullptr) return std::nullopt;
  return CodedValue{node->inputs[0], node->get<DequantizeAttributes>()};
}

// Numbers that are turned into codes.
struct Quantized {
  ValueId x;
  QuantizeAttributes to;
  // Whether nobody else reads x or what lies between x and the codes.
  bool alone = true;
};

// Finds round(x / scale) + zero, clamped to the type's range, in front of the
// cast to that type.
std::optional<Quantized> FindQuantize(const Sweep& sweep, const Node& cast) {
  const DType dtype = sweep.value(cast.outputs[0]).dtype;
  Quantized found{.to = {.codes = {.dtype = dtype,
                                   .low = LeastCode(dtype),
                                   .high = MostCode(dtype)}}};
  const auto enter = [&](ValueId id) {
    found.alone = found.alone && sweep.IsOnlyReaderOf(id);
    return id;
  };
  const Node* node =
      UnaryBehind(sweep, enter(cast.inputs[0]), UnaryFunction::kClip);
  if (node == nullptr) return std::nullopt;
  const auto& clip = node->get<UnaryAttributes>();
  if (clip.alpha != found.to.codes.low || clip.beta != found.to.codes.high) {
    return std::nullopt;
  }
  ValueId shifted = enter(node->inputs[0]);
  node = BinaryBehind(sweep, shifted, BinaryFunction::kAdd);
  if (node != nullptr) {
    const auto zero = ZeroOf(sweep.Number(node->inputs[1]), dtype);
    if (!zero.has_value()) return std::nullopt;
    found.to.codes.zero = *zero;
    shifted = enter(node->inputs[0]);
  }
  node = UnaryBehind(sweep, shifted, UnaryFunction::kRound);
  if (node == nullptr) return std::nullopt;
  node = BinaryBehind(sweep, enter(node->inputs[0]), BinaryFunction::kDivide);
  if (node == nullptr) return std::nullopt;
  const std::optional<double> scale = sweep.Number(node->inputs[1]);
  found.x = enter(node->inputs[0]);
  const Value& x = sweep.value(found.x);
  if (!IsScale(scale) || x.dtype != DType::kFloat32 ||
      IsOfWeights(sweep, x.id) || x.shape != sweep.shape(cast.outputs[0])) {
    return std::nullopt;
  }
  found.to.scale = *scale;
  return found;
}

// Narrows the codes to those of numbers in [low, high]. Both directions of the
// conversion are monotonous, so the result is that of a clamp before it.
void Narrow(QuantizeAttributes& to, double low, double high) {
  const auto code = [&to](double number) {
    const double whole = std::nearbyint(number / to.scale) + to.codes.zero;
    return static_cast<int>(
        std::clamp<double>(whole, to.codes.low, to.codes.high));
  };
  const int least = code(low), most = code(high);
  to.codes.low = least;
  to.codes.high = most;
}

// Takes activations in front of the codes into their range.
void TakeActivations(const Sweep& sweep, Quantized& quantized) {
  while (quantized.alone) {
    const Node* node = sweep.Producer(quantized.x);
    if (node == nullptr) return;
    if (node->op == Op::kRelu) {
      Narrow(quantized.to, 0, HUGE_VAL);
    } else if (node->op == Op::kUnary &&
               node->get<UnaryAttributes>().function == UnaryFunction::kClip) {
      const auto& clip = node->get<UnaryAttributes>();
      if (!(clip.alpha <= clip.beta)) return;
      Narrow(quantized.to, clip.alpha, clip.beta);
    } else {
      return;
    }
    quantized.x = node->inputs[0];
    quantized.alone = sweep.IsOnlyReaderOf(quantized.x);
  }
}

// Weights as codes with zero point 0.
struct CodedWeights {
  ValueId codes;  // int8
  ValueId scale;  // one number, or one for each filter
};

// Returns codes that the importer has turned into numbers already, as int8.
std::optional<ValueId> ConstantCodes(Sweep& sweep, ValueId id) {
  const Value& value = sweep.value(id);
  if (value.kind != ValueKind::kConstant) return std::nullopt;
  const bool codes = std::all_of(
      value.constant.begin(), value.constant.end(), [](double number) {
        return number == std::floor(number) && number >= -128 && number <= 127;
      });
  if (!codes) return std::nullopt;
  const TensorType type{DType::kInt8, value.shape};
  return sweep.Constant(type, std::vector<double>(value.constant));
}

bool IsPerFilter(const Shape& scale, const Shape& w) {
  return scale.elements() == 1 ||
         (scale.rank() == w.rank() && scale.elements() == w[0] &&
          scale[0] == w[0]);
}

std::optional<CodedWeights> FindWeights(Sweep& sweep, ValueId w) {
  const Node* node = BinaryBehind(sweep, w, BinaryFunction::kMultiply);
  if (node == nullptr) return std::nullopt;
  const ValueId centered = node->inputs[0], scale = node->inputs[1];
  if (!IsOfWeights(sweep, scale) ||
      !IsPerFilter(sweep.shape(scale), sweep.shape(w)) ||
      sweep.shape(centered) != sweep.shape(w)) {
    return std::nullopt;
  }
  if (const auto constant = ConstantCodes(sweep, centered)) {
    return CodedWeights{*constant, scale};
  }
  const std::optional<CodedValue> found = FindCodes(sweep, centered);
  if (!found.has_value() || found->meaning.zero != 0) return std::nullopt;
  const Value& codes = sweep.value(found->codes);
  if (codes.dtype != DType::kInt8 || !IsOfWeights(sweep, codes.id)) {
    return std::nullopt;
  }
  return CodedWeights{found->codes, scale};
}

// Returns the scale of each filter. A scale of 0 becomes a tiny one, because
// the bias is divided by it.
absl::StatusOr<ValueId> FilterScales(Sweep& sweep, ValueId scale,
                                     const Shape& row) {
  constexpr double kTiny = 1e-20;
  ValueId scales = scale;
  if (sweep.shape(scale).elements() == row.elements()) {
    ASSIGN_OR_RETURN(scales, sweep.Reshape(scale, row));
  } else {
    ASSIGN_OR_RETURN(scales, sweep.Reshape(scale, Shape{}));
    ASSIGN_OR_RETURN(
        scales, sweep.Emit(Op::kBroadcast, {scales}, ShapeAttributes{row}));
  }
  const ValueId zero = sweep.Scalar(DType::kFloat32, 0);
  const ValueId tiny = sweep.Scalar(DType::kFloat32, kTiny);
  ASSIGN_OR_RETURN(const ValueId none,
                   sweep.Emit(Op::kBinary, {scales, zero},
                              BinaryAttributes{BinaryFunction::kEqual}));
  return sweep.Emit(Op::kWhere, {none, tiny, scales});
}

absl::StatusOr<std::optional<ValueId>> TakeConv(Sweep& sweep,
                                                const Quantized& quantized) {
  const Node* producer = sweep.Producer(quantized.x, Op::kConv2d);
  if (producer == nullptr) return std::nullopt;
  const Node conv = *producer;
  QuantizedConv2dAttributes attributes{.conv = conv.get<Conv2dAttributes>(),
                                       .codes = quantized.to.codes};
  const Epilogue epilogue = std::exchange(attributes.conv.epilogue, {});
  const Shape w = sweep.shape(conv.inputs[1]);
  const std::optional<CodedValue> x = Dequantized(sweep, conv.inputs[0]);
  if (!x.has_value() || w.rank() != 4 || epilogue.residual ||
      epilogue.activation != Activation::kNone ||
      w.elements() / w[0] > kMaxCodeProducts) {
    return std::nullopt;
  }
  const std::optional<CodedWeights> weights =
      FindWeights(sweep, conv.inputs[1]);
  if (!weights.has_value()) return std::nullopt;
  attributes.x_zero = x->meaning.zero;
  const auto binary = [&](ValueId a, BinaryFunction function, ValueId b) {
    return sweep.Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
  };
  const Shape row{w[0]};
  ASSIGN_OR_RETURN(const ValueId scales,
                   FilterScales(sweep, weights->scale, row));
  const ValueId ratio =
      sweep.Scalar(DType::kFloat32, x->meaning.scale / quantized.to.scale);
  ASSIGN_OR_RETURN(const ValueId factor,
                   binary(scales, BinaryFunction::kMultiply, ratio));
  ValueId shift = sweep.Constant({DType::kFloat32, row}, {0});
  if (epilogue.bias) {
    const ValueId x_scale = sweep.Scalar(DType::kFloat32, x->meaning.scale);
    ASSIGN_OR_RETURN(const ValueId unit,
                     binary(scales, BinaryFunction::kMultiply, x_scale));
    ASSIGN_OR_RETURN(shift,
                     binary(conv.inputs[2], BinaryFunction::kDivide, unit));
  }
  ASSIGN_OR_RETURN(
      const ValueId y,
      sweep.Emit(Op::kQuantizedConv2d,
                 {x->codes, weights->codes, factor, shift}, attributes));
  return y;
}

absl::StatusOr<std::optional<ValueId>> TakeSum(Sweep& sweep,
                                               const Quantized& quantized) {
  const Node* sum = sweep.Producer(quantized.x, Op::kAdd);
  if (sum == nullptr) {
    sum = BinaryBehind(sweep, quantized.x, BinaryFunction::kAdd);
  }
  if (sum == nullptr) return std::nullopt;
  const auto a = Dequantized(sweep, sum->inputs[0]);
  const auto b = Dequantized(sweep, sum->inputs[1]);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  const DType dtype = quantized.to.codes.dtype;
  if (sweep.value(a->codes).type() != sweep.value(b->codes).type() ||
      sweep.value(a->codes).dtype != dtype) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(
      const ValueId y,
      sweep.Emit(Op::kQuantizedAdd, {a->codes, b->codes},
                 QuantizedAddAttributes{a->meaning, b->meaning, quantized.to}));
  return y;
}

// Returns whether the op gives the codes of its result when it gets codes that
// mean the same.
bool WorksOnCodes(const Node& node) {
  switch (node.op) {
    case Op::kMaxPool:
      return !node.get<Pool2dAttributes>().with_argmax;
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kConcat:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::optional<ValueId>> TakeMove(Sweep& sweep,
                                                const Quantized& quantized) {
  const Node* producer = sweep.Producer(quantized.x);
  if (producer == nullptr || !WorksOnCodes(*producer)) return std::nullopt;
  const Node node = *producer;
  const CodeRange& codes = quantized.to.codes;
  if (codes.low != LeastCode(codes.dtype) ||
      codes.high != MostCode(codes.dtype)) {
    return std::nullopt;
  }
  const DequantizeAttributes meaning{quantized.to.scale, codes.zero};
  ValueIds inputs;
  for (const ValueId input : node.inputs) {
    const std::optional<CodedValue> x = Dequantized(sweep, input);
    if (!x.has_value() || x->meaning != meaning ||
        sweep.value(x->codes).dtype != codes.dtype) {
      return std::nullopt;
    }
    inputs.push_back(x->codes);
  }
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Emit(node.op, inputs, node.attributes));
  return y;
}

absl::Status TakeQuantize(Sweep& sweep, Node& node) {
  if (node.op != Op::kCast || !IsCodeType(sweep.value(node.outputs[0]).dtype)) {
    return absl::OkStatus();
  }
  std::optional<Quantized> quantized = FindQuantize(sweep, node);
  if (!quantized.has_value()) return absl::OkStatus();
  TakeActivations(sweep, *quantized);
  if (quantized->alone) {
    for (const auto take : {TakeConv, TakeSum, TakeMove}) {
      ASSIGN_OR_RETURN(const std::optional<ValueId> y, take(sweep, *quantized));
      if (!y.has_value()) continue;
      sweep.Replace(node, *y);
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Emit(Op::kQuantize, {quantized->x}, quantized->to));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

}  // namespace

absl::Status Quantise(Graph& graph) {
  if (HasUpdates(graph)) return absl::OkStatus();
  return Sweep(graph).Run({TakeDequantize, TakeQuantize});
}

}  // namespace gpupool::engine
