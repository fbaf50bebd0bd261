#include "engine/runtime/value_identity.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/graph/print.h"

namespace gpupool::engine {
namespace {

// The longest text; a longer one is replaced by its digest. Otherwise texts
// could double with each node of a chain.
constexpr size_t kMaxText = 512;

std::string ConstantText(const Value& value) {
  const std::string_view bytes(
      reinterpret_cast<const char*>(value.constant.data()),
      value.constant.size() * sizeof(double));
  return absl::StrCat("constant ", DTypeName(value.dtype),
                      value.shape.ToString(), " ", Sha256Hex(bytes));
}

}  // namespace

ValueIdentities::ValueIdentities(const Graph& graph)
    : texts_(graph.values().size()) {
  const auto at = [this](ValueId id) -> std::string& {
    return texts_[static_cast<size_t>(id.index)];
  };
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kPersistent) at(value.id) = value.name;
    if (value.kind == ValueKind::kConstant) at(value.id) = ConstantText(value);
  }
  // Load nodes come first in every graph.
  for (const Node& node : graph.nodes()) {
    if (node.stage != Stage::kLoad) break;
    std::string text =
        absl::StrCat(OpName(node.op), "{", Print(node.attributes), "}(");
    bool known = true;
    for (const ValueId input : node.inputs) {
      known = known && !at(input).empty();
      absl::StrAppend(&text, at(input), ",");
    }
    // An operand without an identity leaves the results without one.
    if (!known) continue;
    if (text.size() > kMaxText) {
      text = absl::StrCat(OpName(node.op), " ", Sha256Hex(text));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      at(node.outputs[i]) = absl::StrCat(text, ")", i);
    }
  }
}

}  // namespace gpupool::engine
