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

// Returns "%name: type shape", with layout and alias if not the default.
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
