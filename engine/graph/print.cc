#include "engine/graph/print.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::engine {
namespace {

absl::string_view Name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInput:
      return "input";
    case ValueKind::kConstant:
      return "constant";
    case ValueKind::kPersistent:
      return "persistent";
    case ValueKind::kDerived:
      return "derived";
    case ValueKind::kIntermediate:
      return "intermediate";
  }
  return "unknown";
}

absl::string_view Name(Activation activation) {
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
  }
  return "unknown";
}

absl::string_view Name(AliasKind kind) {
  switch (kind) {
    case AliasKind::kNone:
      return "none";
    case AliasKind::kView:
      return "view";
    case AliasKind::kInPlace:
      return "in_place";
    case AliasKind::kUpdate:
      return "update";
  }
  return "unknown";
}

std::string Text(const Extent& extent) {
  return absl::StrCat(extent.d == 0 ? "" : absl::StrCat(extent.d, "x"),
                      extent.h, "x", extent.w);
}

// "1x1", or "0x0:1x1" where the two sides differ.
std::string Text(const Padding& padding) {
  if (padding.begin == padding.end) return Text(padding.begin);
  return absl::StrCat(Text(padding.begin), ":", Text(padding.end));
}

// One "key=value" per attribute that says something.
class Writer {
 public:
  template <typename T>
  void Add(absl::string_view key, const T& value) {
    absl::StrAppend(&text_, text_.empty() ? "" : " ", key, "=", value);
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
      Add("activation", Name(epilogue.activation));
    }
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
  void operator()(const NormAttributes& a) { Add("epsilon", a.epsilon); }
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
  }
  void operator()(const ClipAttributes& a) { Add("max_norm", a.max_norm); }
  void operator()(const SgdAttributes& a) {
    Add("momentum", a.momentum);
    Add("dampening", a.dampening);
    Add("weight_decay", a.weight_decay);
    Flag("nesterov", a.nesterov);
    Flag("clip", a.clip);
  }
  void operator()(const AdamAttributes& a) {
    Add("beta1", a.beta1);
    Add("beta2", a.beta2);
    Add("epsilon", a.epsilon);
    Add("weight_decay", a.weight_decay);
    Flag("decoupled", a.decoupled);
    Flag("clip", a.clip);
  }
  void operator()(const ShapeAttributes& a) {
    Add("shape", a.shape.ToString());
  }
  void operator()(const LayoutAttributes& a) {
    Add("layout",
        a.layout == Layout::kRowMajor ? "row_major" : "channels_last");
  }

  template <typename T>
  void operator()(const T&) {}

 private:
  std::string text_;
};

std::string Declaration(const Graph& graph, const Value& value) {
  std::string text = absl::StrCat(
      "%", value.name, ": ", DTypeName(value.dtype), " ",
      value.shape.ToString(),
      value.layout == Layout::kChannelsLast ? " channels_last" : "");
  if (value.alias.kind != AliasKind::kNone) {
    absl::StrAppend(&text, " ", Name(value.alias.kind), " of %",
                    graph.value(value.alias.of).name);
  }
  return text;
}

}  // namespace

std::string Print(const Attributes& attributes) {
  Writer writer;
  std::visit([&writer](const auto& a) { writer(a); }, attributes);
  return writer.Take();
}

std::string Print(const Graph& graph, const Node& node) {
  const auto declare = [&graph](std::string* out, ValueId id) {
    absl::StrAppend(out, Declaration(graph, graph.value(id)));
  };
  const auto refer = [&graph](std::string* out, ValueId id) {
    absl::StrAppend(out, "%", graph.value(id).name);
  };
  const std::string attributes = Print(node.attributes);
  return absl::StrCat(
      node.stage == Stage::kLoad ? "load " : "",
      absl::StrJoin(node.outputs, ", ", declare), " = ", OpName(node.op), "(",
      absl::StrJoin(node.inputs, ", ", refer), ")",
      attributes.empty() ? "" : " {", attributes, attributes.empty() ? "" : "}",
      node.source.empty() ? "" : absl::StrCat("  # ", node.source));
}

std::string Print(const Graph& graph) {
  std::string text;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kIntermediate ||
        value.kind == ValueKind::kDerived) {
      continue;
    }
    absl::StrAppend(&text, Name(value.kind), " ", Declaration(graph, value),
                    "\n");
  }
  for (const Node& node : graph.nodes()) {
    absl::StrAppend(&text, Print(graph, node), "\n");
  }
  for (const GraphOutput& output : graph.outputs()) {
    absl::StrAppend(&text, "output ", output.name, " = %",
                    graph.value(output.value).name, "\n");
  }
  return text;
}

}  // namespace gpupool::engine
