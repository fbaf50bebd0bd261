#include "engine/passes/rewrite/sweep.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {

Sweep::Sweep(Graph& graph)
    : graph_(graph),
      builder_(&graph),
      updaters_(Updaters(graph)),
      uses_(graph.values().size(), 0),
      producers_(graph.values().size(), -1),
      replaced_(Identity(graph)) {
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.inputs) ++uses_[At(id)];
  }
  for (const GraphOutput& output : graph.outputs()) ++uses_[At(output.value)];
  // Updates are needed even if no node reads them.
  for (const Value& value : graph.values()) {
    if (value.alias.kind == AliasKind::kUpdate) ++uses_[At(value.id)];
  }
}

absl::Status Sweep::Run(std::initializer_list<Rule> rules) {
  old_ = std::move(graph_.mutable_nodes());
  graph_.mutable_nodes().clear();
  for (Node& node : old_) {
    RETURN_IF_ERROR(Visit(std::move(node), rules));
    ++position_;
  }
  Finish();
  return absl::OkStatus();
}

absl::Status Sweep::Visit(Node node, std::initializer_list<Rule> rules) {
  for (ValueId& id : node.inputs) id = Latest(id);
  const ValueIds before = node.inputs;
  builder_.SetSource(node.source, node.region);
  builder_.SetStage(node.stage);
  builder_.SetMemoryClass(value(node.outputs[0]).memory_class);
  taken_ = false;
  for (const Rule rule : rules) {
    RETURN_IF_ERROR(rule(*this, node));
    if (taken_) break;
  }
  // A rule may have changed the inputs, so the old reads are taken back and the
  // new ones counted in Note.
  for (ValueId id : before) --uses_[At(id)];
  if (taken_) return absl::OkStatus();
  Note(node);
  graph_.AddNode(std::move(node));
  return absl::OkStatus();
}

// Counts the reads of a node that will be appended next.
void Sweep::Note(const Node& node) {
  uses_.resize(graph_.values().size(), 0);
  producers_.resize(graph_.values().size(), -1);
  for (size_t v = replaced_.size(); v < graph_.values().size(); ++v) {
    replaced_.push_back(ValueId{static_cast<int32_t>(v)});
  }
  for (ValueId id : node.inputs) ++uses_[At(id)];
  for (ValueId id : node.outputs) {
    producers_[At(id)] = static_cast<int>(graph_.nodes().size());
  }
}

ValueId Sweep::Latest(ValueId id) const { return Resolve(replaced_, id); }

const Node* Sweep::Producer(ValueId id) const {
  const int producer = producers_[At(id)];
  if (producer < 0) return nullptr;
  const Node& node = graph_.nodes()[static_cast<size_t>(producer)];
  // The node may not be merged into a later one if an input changes between.
  for (ValueId input : node.inputs) {
    if (At(input) >= updaters_.size()) continue;
    const int updater = updaters_[At(input)];
    if (updater >= 0 && updater < position_) return nullptr;
  }
  return &node;
}

const Node* Sweep::Producer(ValueId id, Op op) const {
  const Node* node = Producer(id);
  return node != nullptr && node->op == op ? node : nullptr;
}

std::optional<double> Sweep::Number(ValueId id) const {
  const Value& constant = value(id);
  if (constant.kind != ValueKind::kConstant || constant.constant.empty()) {
    return std::nullopt;
  }
  const double number = constant.constant[0];
  for (const double other : constant.constant) {
    if (other != number) return std::nullopt;
  }
  return number;
}

absl::StatusOr<ValueId> Sweep::Emit(Op op, const ValueIds& inputs,
                                    Attributes attributes) {
  ASSIGN_OR_RETURN(const ValueId result,
                   builder_.EmitOne(op, inputs, std::move(attributes)));
  // EmitOne has appended the node, but Note needs its position beforehand.
  Node node = std::move(graph_.mutable_nodes().back());
  graph_.mutable_nodes().pop_back();
  Note(node);
  graph_.AddNode(std::move(node));
  changed_ = true;
  return result;
}

ValueId Sweep::Constant(TensorType type, std::vector<double> numbers) {
  const ValueId id = builder_.Constant(std::move(type), std::move(numbers));
  Note(Node{});
  return id;
}

absl::StatusOr<ValueId> Sweep::Reshape(ValueId x, const Shape& to) {
  if (shape(x) == to) return x;
  return Emit(Op::kReshape, {x}, ShapeAttributes{to});
}

void Sweep::Replace(Node& node, ValueId with) {
  const ValueId old = node.outputs[0];
  GPUPOOL_CHECK(node.outputs.size() == 1 &&
                value(old).type() == value(with).type());
  if (value(old).alias.kind == AliasKind::kUpdate) return;
  // Later readers of a value that is overwritten would read the new one.
  if (At(with) < updaters_.size() && updaters_[At(with)] >= 0) return;
  replaced_[At(old)] = with;
  uses_[At(with)] += uses_[At(old)];
  uses_[At(old)] = 0;
  taken_ = true;
  changed_ = true;
}

void Sweep::Finish() {
  Note(Node{});
  ApplyReplacements(graph_, replaced_);
  if (!changed_) return;
  std::vector<bool> drop(graph_.nodes().size(), false);
  // Backwards, so dropping a node can drop its producers in the same pass.
  for (size_t i = graph_.nodes().size(); i-- > 0;) {
    const Node& node = graph_.nodes()[i];
    drop[i] = std::all_of(node.outputs.begin(), node.outputs.end(),
                          [this](ValueId id) { return uses_[At(id)] == 0; });
    if (!drop[i]) continue;
    for (ValueId id : node.inputs) --uses_[At(id)];
  }
  DropNodes(graph_, drop);
}

}  // namespace gpupool::engine
