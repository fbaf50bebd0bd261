// Attributes as text: a "key=value" for each. The text must tell any two
// different nodes apart, because identities of derived values are built from
// it.
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/graph/ops.h"
#include "engine/graph/print.h"

namespace gpupool::engine {
namespace {

// The names below are in the order of the enumerations.
constexpr std::array<absl::string_view, kUnaryFunctionCount> kUnaryNames = {
    "abs",        "negate", "sign",       "clip",       "exp",
    "log",        "sqrt",   "reciprocal", "floor",      "ceil",
    "round",      "sin",    "cos",        "tan",        "asin",
    "acos",       "atan",   "sinh",       "cosh",       "asinh",
    "acosh",      "atanh",  "erf",        "leaky_relu", "elu",
    "selu",       "celu",   "softplus",   "softsign",   "hard_sigmoid",
    "hard_swish", "silu",   "mish",       "shrink",     "thresholded_relu",
    "is_nan",     "is_inf", "not",
};
constexpr std::array<absl::string_view, kBinaryFunctionCount> kBinaryNames = {
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "minimum",
    "maximum",
    "modulo",
    "remainder",
    "shift_left",
    "shift_right",
    "and",
    "or",
    "xor",
    "equal",
    "less",
    "less_or_equal",
    "greater",
    "greater_or_equal",
};
constexpr std::array<absl::string_view, 5> kReduceNames = {"sum", "mean", "max",
                                                           "min", "product"};
constexpr std::array<absl::string_view, 3> kPadNames = {"constant", "reflect",
                                                        "edge"};
constexpr std::array<absl::string_view, 5> kScatterNames = {
    "none", "add", "multiply", "minimum", "maximum"};

template <typename Names, typename Enum>
absl::string_view NameOf(const Names& names, Enum value) {
  return names[static_cast<size_t>(value)];
}

// Returns the shorter of two forms that reads back as the same number.
std::string Exact(double value) {
  std::string text = absl::StrCat(value);
  if (std::strtod(text.c_str(), nullptr) == value) return text;
  return absl::StrFormat("%.17g", value);
}

// Returns an FNV-1a hash (Fowler, Noll, Vo) of the numbers' bytes.
std::string Fingerprint(const ResizeAxis& axis) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](const void* data, size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3;
  };
  mix(axis.indices.data(), axis.indices.size() * sizeof(int64_t));
  mix(axis.weights.data(), axis.weights.size() * sizeof(double));
  return absl::StrCat(absl::Hex(hash));
}

absl::string_view NameOf(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return "none";
    case Activation::kRelu:
      return "relu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kSigmoid:
      return "sigmoid";
    case Activation::kTanh:
      return "tanh";
    case Activation::kUnary:
      return "unary";
  }
  return "unknown";
}

std::string Text(const Extent& extent) {
  return absl::StrCat(extent.d == 0 ? "" : absl::StrCat(extent.d, "x"),
                      extent.h, "x", extent.w);
}

// Returns "1x1", or "0x0:1x1" when the two sides differ.
std::string Text(const Padding& padding) {
  if (padding.begin == padding.end) return Text(padding.begin);
  return absl::StrCat(Text(padding.begin), ":", Text(padding.end));
}

// Writes a "key=value" for each attribute that is not its default.
class Writer {
 public:
  template <typename T>
  void Add(absl::string_view key, const T& value) {
    absl::StrAppend(&text_, text_.empty() ? "" : " ", key, "=", value);
  }
  // Writes the number exactly, so that different numbers never read the same.
  void Add(absl::string_view key, double value) { Add(key, Exact(value)); }
  template <typename T>
  void List(absl::string_view key, const std::vector<T>& numbers) {
    Add(key, absl::StrCat("[", absl::StrJoin(numbers, ","), "]"));
  }
  void Flag(absl::string_view key, bool value) {
    if (value) absl::StrAppend(&text_, text_.empty() ? "" : " ", key);
  }
  std::string Take() { return std::move(text_); }

  void operator()(std::monostate) {}
  void operator()(const Epilogue& epilogue) {
    Flag("bias", epilogue.bias);
    Flag("residual", epilogue.residual);
    if (epilogue.activation != Activation::kNone) {
      Add("activation", NameOf(epilogue.activation));
    }
    if (epilogue.activation == Activation::kUnary) (*this)(epilogue.unary);
  }
  void operator()(const MatMulAttributes& a) {
    Flag("transpose_a", a.transpose_a);
    Flag("transpose_b", a.transpose_b);
    (*this)(a.epilogue);
  }
  void operator()(const Conv2dAttributes& a) {
    Add("stride", Text(a.stride));
    Add("padding", Text(a.padding));
    Add("dilation", Text(a.dilation));
    Add("groups", a.groups);
    (*this)(a.epilogue);
  }
  void operator()(const Conv2dGradAttributes& a) {
    (*this)(a.conv);
    Flag("bias_grad", a.bias_grad);
  }
  void operator()(const Pool2dAttributes& a) {
    Add("kernel", Text(a.kernel));
    Add("stride", Text(a.stride));
    Add("padding", Text(a.padding));
    if (a.dilation.cells() != 1) Add("dilation", Text(a.dilation));
    Flag("ceil_mode", a.ceil_mode);
    Flag("exclude_padding", a.exclude_padding);
  }
  void operator()(const Pool2dGradAttributes& a) { (*this)(a.pool); }
  void operator()(const NormAttributes& a) {
    Add("epsilon", a.epsilon);
    Flag("with_statistics", a.with_statistics);
  }
  void operator()(const BatchNormUpdateAttributes& a) {
    Add("momentum", a.momentum);
    Add("count", a.count);
  }
  void operator()(const GeluAttributes& a) {
    Flag("tanh_approximation", a.tanh_approximation);
  }
  void operator()(const DropoutAttributes& a) {
    Add("probability", a.probability);
    Add("stream", a.stream);
  }
  void operator()(const LossAttributes& a) {
    Add("reduction", a.reduction == Reduction::kMean ? "mean" : "sum");
    if (a.label_smoothing != 0) Add("label_smoothing", a.label_smoothing);
    if (a.ignore_label != LossAttributes().ignore_label) {
      Add("ignore_label", a.ignore_label);
    }
  }
  void operator()(const AllReduceAttributes& a) { Add("ranks", a.ranks); }
  void operator()(const ShapeAttributes& a) {
    Add("shape", a.shape.ToString());
  }
  void operator()(const LayoutAttributes& a) {
    Add("layout",
        a.layout == Layout::kRowMajor ? "row_major" : "channels_last");
  }

  void operator()(const UnaryAttributes& a) {
    Add("function", NameOf(kUnaryNames, a.function));
    if (a.alpha != 0) Add("alpha", a.alpha);
    if (a.beta != 0) Add("beta", a.beta);
  }
  void operator()(const BinaryAttributes& a) {
    Add("function", NameOf(kBinaryNames, a.function));
  }
  void operator()(const CastAttributes& a) { Add("to", DTypeName(a.dtype)); }
  void operator()(const ReduceAttributes& a) {
    Add("function", NameOf(kReduceNames, a.function));
    List("axes", a.axes);
    Flag("keep_dims", a.keep_dims);
  }
  void operator()(const ArgReduceAttributes& a) {
    Add("function", a.maximum ? "max" : "min");
    Add("axis", a.axis);
    Flag("keep_dims", a.keep_dims);
    Flag("last", a.last);
  }
  void operator()(const CumSumAttributes& a) {
    Add("axis", a.axis);
    Flag("exclusive", a.exclusive);
    Flag("reverse", a.reverse);
  }
  void operator()(const TransposeAttributes& a) {
    List("permutation", a.permutation);
  }
  void operator()(const SliceAttributes& a) {
    List("starts", a.starts);
    List("steps", a.steps);
    List("sizes", a.sizes);
  }
  void operator()(const SliceGradAttributes& a) {
    (*this)(a.slice);
    Add("input", a.input.ToString());
  }
  void operator()(const PadAttributes& a) {
    List("before", a.before);
    List("after", a.after);
    Add("mode", NameOf(kPadNames, a.mode));
    if (a.value != 0) Add("value", a.value);
  }
  void operator()(const AxisAttributes& a) { Add("axis", a.axis); }
  void operator()(const GatherGradAttributes& a) {
    Add("axis", a.axis);
    Add("input", a.input.ToString());
  }
  void operator()(const GatherNdAttributes& a) {
    Add("batch_dims", a.batch_dims);
  }
  void operator()(const ScatterAttributes& a) {
    Add("axis", a.axis);
    Add("reduction", NameOf(kScatterNames, a.reduction));
  }
  void operator()(const TreeWalkAttributes& a) { Add("levels", a.levels); }
  void operator()(const BlockedMatMulAttributes& a) {
    Add("bits", a.bits);
    Flag("with_zeros", a.with_zeros);
  }
  void operator()(const CodeRange& a) {
    Add("dtype", DTypeName(a.dtype));
    Add("zero", a.zero);
    Add("low", a.low);
    Add("high", a.high);
  }
  void operator()(const QuantizeAttributes& a) {
    Add("scale", a.scale);
    (*this)(a.codes);
  }
  void operator()(const DequantizeAttributes& a) {
    Add("scale", a.scale);
    Add("zero", a.zero);
  }
  void operator()(const QuantizedAddAttributes& a) {
    (*this)(a.a);
    (*this)(a.b);
    (*this)(a.sum);
  }
  void operator()(const QuantizedConv2dAttributes& a) {
    (*this)(a.conv);
    Add("x_zero", a.x_zero);
    (*this)(a.codes);
  }
  void operator()(const TopKAttributes& a) {
    Add("axis", a.axis);
    Add("k", a.k);
    Flag("largest", a.largest);
    Flag("sorted", a.sorted);
  }
  // Writes a fingerprint of the tables, which are long.
  void operator()(const ResizeAttributes& a) {
    for (const ResizeAxis& axis : a.axes) {
      Add("axis", axis.axis);
      Add("size", axis.size);
      Add("taps", axis.taps);
      Add("table", Fingerprint(axis));
    }
  }
  void operator()(const ResizeGradAttributes& a) {
    (*this)(a.resize);
    Add("input", a.input.ToString());
  }
  void operator()(const BatchMatMulAttributes& a) {
    Flag("transpose_a", a.transpose_a);
    Flag("transpose_b", a.transpose_b);
    if (a.scale != 1) Add("scale", a.scale);
  }
  void operator()(const AttentionAttributes& a) {
    Add("scale", a.scale);
    Flag("causal", a.causal);
    Flag("with_lse", a.with_lse);
  }
  void operator()(const LrnAttributes& a) {
    Add("alpha", a.alpha);
    Add("beta", a.beta);
    Add("bias", a.bias);
    Add("size", a.size);
  }
  void operator()(const RandomAttributes& a) {
    const bool uniform = a.distribution == RandomDistribution::kUniform;
    Add("distribution", uniform ? "uniform" : "normal");
    Add("first", a.first);
    Add("second", a.second);
    Add("stream", a.stream);
    Add("shape", a.shape.ToString());
  }
  // Writes "add(0,1) gelu(2) -> 3". Steps are numbered after the inputs.
  void operator()(const FusedAttributes& a) {
    for (const FusedStep& step : a.steps) {
      Writer parts;
      std::visit([&parts](const auto& part) { parts(part); }, step.attributes);
      const std::string text = parts.Take();
      absl::StrAppend(&text_, text_.empty() ? "" : " ", OpName(step.op),
                      text.empty() ? "" : "[", text, text.empty() ? "" : "]",
                      "(", absl::StrJoin(step.operands, ","), ")");
    }
    List("results", a.results);
    Add("shape", a.shape.ToString());
  }
  template <typename Optimizer>
  requires std::is_constructible_v<OptimizerAttributes, Optimizer>
  void operator()(const Optimizer& a) {
    Optimizer::Fields(a, [this](absl::string_view name, auto value) {
      if constexpr (std::is_same_v<decltype(value), bool>) {
        Flag(name, value);
      } else {
        Add(name, value);
      }
    });
  }
  void operator()(const EmaAttributes& a) { Add("decay", a.decay); }

 private:
  std::string text_;
};

}  // namespace

std::string Print(const Attributes& attributes) {
  Writer writer;
  std::visit([&writer](const auto& a) { writer(a); }, attributes);
  return writer.Take();
}

}  // namespace gpupool::engine
