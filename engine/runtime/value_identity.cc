#include "engine/runtime/value_identity.h"

#include "absl/strings/str_cat.h"
#include "engine/graph/print.h"

namespace gpupool::engine {

std::string IdentityOf(const Graph& graph, const GraphIndex& index,
                       ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind == ValueKind::kPersistent) return value.name;
  if (value.kind != ValueKind::kDerived || index.producer(id) < 0) return "";
  const Node& node = graph.nodes()[static_cast<size_t>(index.producer(id))];
  std::string text =
      absl::StrCat(OpName(node.op), "{", Print(node.attributes), "}(");
  for (const ValueId input : node.inputs) {
    const std::string operand = IdentityOf(graph, index, input);
    if (operand.empty()) return "";
    absl::StrAppend(&text, operand, ",");
  }
  size_t output = 0;
  while (node.outputs[output] != id) ++output;
  return absl::StrCat(text, ")", output);
}

}  // namespace gpupool::engine
