#include "engine/import/onnx/graph/folding_builder.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/reference/kernels.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::onnx_import {
namespace {

// Returns the bytes of a value with its numbers and its name, which the builder
// keeps a second time.
uint64_t BytesOf(const Value& value) {
  constexpr uint64_t kNameEntry = 64;
  return sizeof(Value) + kNameEntry + 2 * value.name.size() +
         value.constant.size() * sizeof(double);
}

}  // namespace

FoldingBuilder::FoldingBuilder(Graph* graph, ImportBudget budget,
                               ReadPersistent read_persistent)
    : graph_(graph),
      builder_(graph),
      budget_(budget),
      read_persistent_(std::move(read_persistent)) {}

ValueId FoldingBuilder::Constant(HostTensor tensor) {
  std::vector<double>& numbers = tensor.numbers;
  if (numbers.size() > 1 &&
      std::all_of(numbers.begin(), numbers.end(),
                  [&numbers](double x) { return x == numbers[0]; })) {
    // One number stands for all elements, which saves memory.
    numbers = {numbers[0]};
  }
  if (tensor.shape.elements() == 0) numbers.clear();
  const ValueId id =
      builder_.Constant({tensor.dtype, tensor.shape}, std::move(numbers));
  budget_.HoldUnchecked(BytesOf(value(id)));
  return id;
}

uint64_t FoldingBuilder::Bytes(const Node& node) const {
  uint64_t bytes = sizeof(Node) + node.source.size() +
                   (node.inputs.size() + node.outputs.size()) * sizeof(ValueId);
  for (ValueId id : node.outputs) bytes += BytesOf(graph_->value(id));
  return bytes;
}

int64_t FoldingBuilder::Work(const Node& node) const {
  // The cap keeps the sums below from overflowing.
  constexpr uint64_t kCap = uint64_t{1} << 60;
  uint64_t work =
      std::min(kCap, Flops(node.op, node.attributes, graph_->InputTypes(node),
                           graph_->OutputTypes(node)));
  for (const ValueIds* ids : {&node.inputs, &node.outputs}) {
    for (ValueId id : *ids) {
      const int64_t elements = graph_->value(id).shape.elements();
      work = std::min(kCap, work + static_cast<uint64_t>(elements));
    }
  }
  // A fixed cost, so that nodes without elements are not free.
  return static_cast<int64_t>(work) + 16;
}

absl::Status FoldingBuilder::RunNode(const Node& node,
                                     std::vector<Elements>& outputs) {
  reference::Operands operands{.node = node,
                               .input_types = graph_->InputTypes(node),
                               .output_types = graph_->OutputTypes(node)};
  for (ValueId id : node.inputs) {
    ASSIGN_OR_RETURN(const Elements* numbers, Compute(id));
    operands.inputs.emplace_back(*numbers);
  }
  bool empty_output = false;
  for (const TensorType& type : operands.output_types) {
    outputs.emplace_back(static_cast<size_t>(type.shape.elements()), 0.0);
    empty_output = empty_output || outputs.back().empty();
  }
  if (empty_output) return absl::OkStatus();
  for (Elements& numbers : outputs) {
    operands.outputs.push_back(absl::MakeSpan(numbers));
  }
  RETURN_IF_ERROR(reference::RunKernel(operands));
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (double& x : outputs[i]) {
      x = RoundToDType(operands.output_types[i].dtype, x);
    }
  }
  return absl::OkStatus();
}

void FoldingBuilder::MakeConstant(ValueId id, Elements numbers) {
  Value& value = graph_->mutable_value(id);
  value.kind = ValueKind::kConstant;
  value.memory_class = MemoryClass::kIo;
  value.constant = std::move(numbers);
  budget_.HoldUnchecked(value.constant.size() * sizeof(double));
}

absl::StatusOr<ValueIds> FoldingBuilder::Emit(Op op,
                                              absl::Span<const ValueId> inputs,
                                              Attributes attributes) {
  return Add({op, inputs, true}, std::move(attributes));
}

absl::StatusOr<ValueIds> FoldingBuilder::EmitUnfolded(
    Op op, absl::Span<const ValueId> inputs, Attributes attributes) {
  return Add({op, inputs, false}, std::move(attributes));
}

absl::StatusOr<ValueIds> FoldingBuilder::Add(const NewNode& added,
                                             Attributes attributes) {
  const auto [op, inputs, fold] = added;
  if (graph_->nodes().size() >= kMaxGraphNodes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph would have more than ", kMaxGraphNodes, " nodes"));
  }
  bool constant = fold && Info(op).pure && !inputs.empty();
  for (ValueId id : inputs) {
    constant = constant && value(id).kind == ValueKind::kConstant;
  }
  // Emitted first even when constant: this checks types and infers shapes.
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   builder_.Emit(op, inputs, std::move(attributes)));
  int64_t elements = 0;
  for (ValueId id : outputs) elements += value(id).shape.elements();
  const Node& node = graph_->nodes().back();
  RETURN_IF_ERROR(budget_.Hold(Bytes(node)));
  if (elements == 0 && Info(op).pure) {
    // No node is left of what computes nothing.
    graph_->mutable_nodes().pop_back();
    for (ValueId id : outputs) MakeConstant(id, {});
    return outputs;
  }
  if (!constant || elements > kMaxFoldedElements || !Spend(Work(node)).ok()) {
    return outputs;
  }
  std::vector<Elements> numbers;
  RETURN_IF_ERROR(RunNode(node, numbers));
  // The outputs keep their ids and become constants.
  graph_->mutable_nodes().pop_back();
  for (size_t i = 0; i < outputs.size(); ++i) {
    MakeConstant(outputs[i], std::move(numbers[i]));
  }
  return outputs;
}

bool FoldingBuilder::DependsOnInput(ValueId id) const {
  if (value(id).kind == ValueKind::kInput) return true;
  const auto index = static_cast<size_t>(id.index);
  return index < depends_on_input_.size() && depends_on_input_[index];
}

bool FoldingBuilder::HasNumbers(ValueId id) {
  IndexNewNodes();
  return !DependsOnInput(id);
}

void FoldingBuilder::IndexNewNodes() {
  const absl::Span<const Node> nodes = graph_->nodes();
  depends_on_input_.resize(graph_->values().size(), false);
  for (; indexed_nodes_ < nodes.size(); ++indexed_nodes_) {
    const Node& node = nodes[indexed_nodes_];
    // Nodes are in order, so their inputs are indexed already.
    const bool depends =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [this](ValueId id) { return DependsOnInput(id); });
    for (ValueId id : node.outputs) {
      producers_[id.index] = indexed_nodes_;
      depends_on_input_[static_cast<size_t>(id.index)] = depends;
    }
  }
}

std::vector<size_t> FoldingBuilder::Ancestors(ValueId id) {
  IndexNewNodes();
  absl::flat_hash_set<size_t> seen;
  ValueIds open{id};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    const auto producer = producers_.find(next.index);
    if (producer == producers_.end() || computed_.contains(next.index)) {
      continue;
    }
    if (!seen.insert(producer->second).second) continue;
    const ValueIds& inputs = graph_->nodes()[producer->second].inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  std::vector<size_t> sorted(seen.begin(), seen.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<std::string> FoldingBuilder::InputsOf(ValueId id) {
  absl::flat_hash_set<int32_t> inputs;
  const auto add = [&](ValueId used) {
    if (value(used).kind == ValueKind::kInput) inputs.insert(used.index);
  };
  add(id);
  for (size_t node : Ancestors(id)) {
    for (ValueId used : graph_->nodes()[node].inputs) add(used);
  }
  std::vector<int32_t> sorted(inputs.begin(), inputs.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> names;
  for (int32_t index : sorted) names.push_back(value({index}).name);
  return names;
}

absl::Status FoldingBuilder::ComputeLeaf(ValueId id) {
  const Value& leaf = value(id);
  Elements numbers;
  if (leaf.kind == ValueKind::kConstant) {
    numbers = leaf.constant;
    if (numbers.size() == 1) {
      numbers.assign(static_cast<size_t>(leaf.shape.elements()), numbers[0]);
    }
  } else {
    ASSIGN_OR_RETURN(HostTensor stored, read_persistent_(leaf.name));
    numbers = std::move(stored.numbers);
  }
  computed_[id.index] = std::move(numbers);
  return absl::OkStatus();
}

// Returns the numbers of a value. The pointer holds until the next call that
// computes something, so callers that keep several use Numbers.
absl::StatusOr<const FoldingBuilder::Elements*> FoldingBuilder::Compute(
    ValueId id) {
  const Value& wanted = value(id);
  if (wanted.kind == ValueKind::kConstant &&
      static_cast<int64_t>(wanted.constant.size()) == wanted.shape.elements()) {
    return &wanted.constant;
  }
  if (!computed_.contains(id.index)) RETURN_IF_ERROR(ComputeLeaf(id));
  return &computed_[id.index];
}

absl::StatusOr<HostTensor> FoldingBuilder::Numbers(ValueId id) {
  if (!HasNumbers(id)) {
    return absl::FailedPreconditionError("the value depends on inputs");
  }
  // The copy itself takes time, also for numbers that were computed before.
  RETURN_IF_ERROR(Spend(value(id).shape.elements()));
  for (size_t position : Ancestors(id)) {
    const Node& node = graph_->nodes()[position];
    RETURN_IF_ERROR(Spend(Work(node)));
    std::vector<Elements> outputs;
    RETURN_IF_ERROR(RunNode(node, outputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      computed_[node.outputs[i].index] = std::move(outputs[i]);
    }
  }
  ASSIGN_OR_RETURN(const Elements* numbers, Compute(id));
  return HostTensor{value(id).dtype, value(id).shape, *numbers};
}

}  // namespace gpupool::engine::onnx_import
