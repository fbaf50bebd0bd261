#include "engine/graph/verify.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/graph/layout_rule.h"

namespace gpupool::engine {
namespace {

template <typename... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("graph is broken: ", parts...));
}

template <typename... Parts>
absl::Status BrokenNode(const Node& node, const Parts&... parts) {
  return Broken(OpName(node.op), node.source.empty() ? "" : " of layer '",
                node.source, node.source.empty() ? ": " : "': ", parts...);
}

bool HasProducer(ValueKind kind) {
  return kind == ValueKind::kIntermediate || kind == ValueKind::kDerived;
}

// Checks that every id is in range. Must come first: later checks use ids as
// indices.
absl::Status CheckIds(const Graph& graph) {
  const auto known = [&graph](ValueId id) {
    return id.valid() && static_cast<size_t>(id.index) < graph.values().size();
  };
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.inputs) {
      if (!known(id)) return BrokenNode(node, "reads an unknown value");
    }
    for (ValueId id : node.outputs) {
      if (!known(id)) return BrokenNode(node, "writes an unknown value");
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (!known(output.value))
      return Broken("output '", output.name, "' is an unknown value");
  }
  for (const Value& value : graph.values()) {
    if (value.alias.kind != AliasKind::kNone && !known(value.alias.of)) {
      return Broken("'", value.name, "' is an alias of an unknown value");
    }
  }
  return absl::OkStatus();
}

// Checks names, layouts and the sizes of constants.
absl::Status CheckValues(const Graph& graph) {
  absl::flat_hash_set<absl::string_view> names;
  for (const Value& value : graph.values()) {
    if (value.name.empty() || !names.insert(value.name).second) {
      return Broken("two values are named '", value.name, "'");
    }
    if (value.layout != Layout::kRowMajor && value.shape.rank() != 4) {
      return Broken("'", value.name, "' is channels-last but ",
                    value.shape.ToString());
    }
    const auto elements = static_cast<size_t>(value.shape.elements());
    if (value.kind == ValueKind::kConstant && value.constant.size() != 1 &&
        value.constant.size() != elements) {
      return Broken("constant '", value.name, "' holds ", value.constant.size(),
                    " numbers");
    }
  }
  return absl::OkStatus();
}

// Checks invariants 1, 2 and 4.
absl::Status CheckOrder(const Graph& graph) {
  std::vector<bool> written(graph.values().size(), false);
  for (const Value& value : graph.values()) {
    written[static_cast<size_t>(value.id.index)] = !HasProducer(value.kind);
  }
  bool steps_began = false;
  for (const Node& node : graph.nodes()) {
    const bool load = node.stage == Stage::kLoad;
    steps_began = steps_began || !load;
    if (load && steps_began) return BrokenNode(node, "loads after a step node");
    for (ValueId id : node.inputs) {
      const Value& value = graph.value(id);
      if (!written[static_cast<size_t>(id.index)]) {
        return BrokenNode(node, "reads '", value.name,
                          "' before it is written");
      }
      if (load && (value.kind == ValueKind::kInput ||
                   value.kind == ValueKind::kIntermediate)) {
        return BrokenNode(node, "reads '", value.name, "' at load time");
      }
    }
    for (ValueId id : node.outputs) {
      const Value& value = graph.value(id);
      if (written[static_cast<size_t>(id.index)]) {
        return BrokenNode(node, "writes '", value.name, "' again");
      }
      if ((value.kind == ValueKind::kDerived) != load) {
        return BrokenNode(node, "writes '", value.name, "' in a wrong stage");
      }
      written[static_cast<size_t>(id.index)] = true;
    }
  }
  for (const Value& value : graph.values()) {
    if (!written[static_cast<size_t>(value.id.index)]) {
      return Broken("nobody writes '", value.name, "'");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const Graph& graph, const Node& node) {
  absl::StatusOr<TensorTypes> types =
      InferTypes(node.op, node.attributes, graph.InputTypes(node));
  if (!types.ok()) return BrokenNode(node, types.status().message());
  if (*types != graph.OutputTypes(node)) {
    return BrokenNode(node, "an output has another type than the rule says");
  }
  return absl::OkStatus();
}

// Checks the layouts of a node's 4-D values against its layout rule.
absl::Status CheckLayout(const Graph& graph, const Node& node) {
  const LayoutRule rule = LayoutRuleOf(graph, node);
  Layout wanted = Layout::kRowMajor;
  const bool shared = rule == LayoutRule::kSame;
  if (shared) {
    // The first output or the first input of such an op is 4-D data whenever
    // any of its values is. The output of a weight gradient is not data.
    const Value& y = graph.value(node.outputs[0]);
    wanted = y.shape.rank() == 4 && !IsWeightOutput(node.op, 0)
                 ? y.layout
                 : graph.value(node.inputs[0]).layout;
  }
  if (rule == LayoutRule::kConvert) {
    const Layout target = node.get<LayoutAttributes>().layout;
    if (graph.value(node.outputs[0]).layout == target) return absl::OkStatus();
    return BrokenNode(node, "the output has another layout");
  }
  const CellMove move = CellMoveOf(node);
  const auto fits = [&](ValueId id, bool weight) {
    const Value& value = graph.value(id);
    if (value.shape.rank() != 4) return true;
    if (move == CellMove::kFromImage && id == node.inputs[0]) return true;
    if (move == CellMove::kToImage && id == node.outputs[0]) return true;
    return value.layout == (weight ? Layout::kRowMajor : wanted);
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!fits(node.inputs[i], IsWeightInput(node.op, i)) &&
        !(shared && TakesEitherLayout(graph, node, i))) {
      return BrokenNode(node, "input ", i, " has a wrong layout");
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!fits(node.outputs[i], IsWeightOutput(node.op, i))) {
      return BrokenNode(node, "output ", i, " has a wrong layout");
    }
  }
  return absl::OkStatus();
}

// Checks invariant 5: which values share bytes, and who reads them when.
class AliasCheck {
 public:
  explicit AliasCheck(const Graph& graph)
      : graph_(graph), index_(graph), views_(graph.values().size()) {
    for (const Value& value : graph.values()) {
      if (value.alias.kind == AliasKind::kView) {
        views_[static_cast<size_t>(value.alias.of.index)].push_back(value.id);
      }
    }
  }

  absl::Status Run() const {
    absl::flat_hash_set<int32_t> updated;
    for (const Value& value : graph_.values()) {
      if (value.alias.kind == AliasKind::kNone) continue;
      RETURN_IF_ERROR(CheckProducer(value));
      if (value.alias.kind == AliasKind::kView) continue;
      RETURN_IF_ERROR(CheckOverwrite(value));
      if (value.alias.kind == AliasKind::kUpdate &&
          !updated.insert(value.alias.of.index).second) {
        return Broken("'", graph_.value(value.alias.of).name,
                      "' is updated twice");
      }
    }
    return absl::OkStatus();
  }

 private:
  // Checks that the alias refers to an input of the value's producer, of the
  // same type.
  absl::Status CheckProducer(const Value& value) const {
    const int producer = index_.producer(value.id);
    if (producer < 0) return Broken("'", value.name, "' has no producer");
    const Node& node = graph_.nodes()[static_cast<size_t>(producer)];
    bool reads = false;
    for (ValueId id : node.inputs) reads = reads || id == value.alias.of;
    if (!reads) {
      return BrokenNode(node, "'", value.name,
                        "' is an alias of a value that is no input");
    }
    const Value& old = graph_.value(value.alias.of);
    const bool same = value.alias.kind == AliasKind::kView
                          ? old.bytes() == value.bytes()
                          : old.type() == value.type();
    const bool layout = CellMoveOf(node) != CellMove::kNone
                            ? KeepsCells(graph_, node)
                            : old.layout == value.layout ||
                                  (value.alias.kind == AliasKind::kView &&
                                   SameBytesInAnyLayout(value.shape));
    if (!same || !layout) {
      return BrokenNode(node, "'", value.name, "' cannot share the bytes of '",
                        old.name, "'");
    }
    return absl::OkStatus();
  }

  // Checks the kind of the overwritten bytes: persistent for an update,
  // intermediate for a result in place.
  absl::Status CheckOverwrite(const Value& value) const {
    // A view has no bytes of its own: the rules are those of its root.
    ValueId root = value.alias.of;
    while (graph_.value(root).alias.kind == AliasKind::kView) {
      root = graph_.value(root).alias.of;
    }
    const ValueKind kind = graph_.value(root).kind;
    const bool update = value.alias.kind == AliasKind::kUpdate;
    if (kind != (update ? ValueKind::kPersistent : ValueKind::kIntermediate)) {
      return Broken("'", value.name, "' must not overwrite '",
                    graph_.value(root).name, "'");
    }
    return CheckReaders(root, value, index_.producer(value.id));
  }

  // Checks that every reader of `id` and of its views runs before `writer`.
  absl::Status CheckReaders(ValueId id, const Value& by, int writer) const {
    if (index_.is_output(id)) {
      return Broken("'", by.name, "' overwrites the output '",
                    graph_.value(id).name, "'");
    }
    const bool update = by.alias.kind == AliasKind::kUpdate;
    for (int reader : index_.readers(id)) {
      const Node& node = graph_.nodes()[static_cast<size_t>(reader)];
      // A load node runs before all steps, but again when weights change: it
      // would then read a value that a step has overwritten.
      const bool stale = update && node.stage == Stage::kLoad;
      if (reader > writer || stale) {
        return BrokenNode(node, "reads '", graph_.value(id).name,
                          "' after it was overwritten");
      }
    }
    for (ValueId view : views_[static_cast<size_t>(id.index)]) {
      RETURN_IF_ERROR(CheckReaders(view, by, writer));
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  GraphIndex index_;
  std::vector<std::vector<ValueId>> views_;
};

}  // namespace

absl::Status Verify(const Graph& graph) {
  RETURN_IF_ERROR(CheckIds(graph));
  RETURN_IF_ERROR(CheckValues(graph));
  RETURN_IF_ERROR(CheckOrder(graph));
  for (const Node& node : graph.nodes()) {
    RETURN_IF_ERROR(CheckTypes(graph, node));
    RETURN_IF_ERROR(CheckLayout(graph, node));
  }
  return AliasCheck(graph).Run();
}

}  // namespace gpupool::engine
