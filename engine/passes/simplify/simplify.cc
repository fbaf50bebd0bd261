#include "engine/passes/simplify/simplify.h"

#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

// A sweep may create work for the next one; such chains are short.
constexpr int kMaxSweeps = 4;

const BinaryFunction* FunctionOf(const Node& node) {
  return node.op == Op::kBinary ? &node.get<BinaryAttributes>().function
                                : nullptr;
}

// Returns whether f(x, number) is x.
bool IsNeutralOnTheRight(BinaryFunction function, double number) {
  switch (function) {
    case BinaryFunction::kAdd:
    case BinaryFunction::kSubtract:
      return number == 0;
    case BinaryFunction::kMultiply:
    case BinaryFunction::kDivide:
    case BinaryFunction::kPower:
      return number == 1;
    default:
      return false;
  }
}

bool IsCommutative(BinaryFunction function) {
  return function == BinaryFunction::kAdd ||
         function == BinaryFunction::kMultiply;
}

// Replaces x + 0 and the like by x.
bool ReplacedByOperand(Sweep& sweep, Node& node, BinaryFunction function) {
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    if (operand == 1 && !IsCommutative(function)) break;
    const ValueId x = node.inputs[operand];
    const auto number = sweep.Number(node.inputs[1 - operand]);
    if (!number.has_value() || !IsNeutralOnTheRight(function, *number) ||
        sweep.value(x).type() != sweep.value(node.outputs[0]).type()) {
      continue;
    }
    sweep.Replace(node, x);
    return true;
  }
  return false;
}

// Writes x^2 as a product, which costs far less than a power.
void SimplifyPower(Sweep& sweep, Node& node) {
  if (sweep.Number(node.inputs[1]) != 2.0 ||
      sweep.value(node.inputs[0]).type() !=
          sweep.value(node.outputs[0]).type()) {
    return;
  }
  node.attributes = BinaryAttributes{BinaryFunction::kMultiply};
  node.inputs[1] = node.inputs[0];
  sweep.MarkChanged();
}

// Writes a sum without broadcasting as kAdd, which more passes support.
void SimplifySum(Sweep& sweep, Node& node) {
  const Value& a = sweep.value(node.inputs[0]);
  const Value& b = sweep.value(node.inputs[1]);
  if (a.type() != b.type() || !IsFloating(a.dtype)) return;
  node.op = Op::kAdd;
  node.attributes = std::monostate{};
  sweep.MarkChanged();
}

// Removes broadcasts in front of elementwise nodes, which broadcast anyway.
void ReadBeforeBroadcast(Sweep& sweep, Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Node* broadcast = sweep.Producer(node.inputs[i], Op::kBroadcast);
    if (broadcast == nullptr) continue;
    TensorTypes types;
    for (const ValueId id : node.inputs) {
      types.push_back(sweep.value(id).type());
    }
    types[i] = sweep.value(broadcast->inputs[0]).type();
    const auto result = InferTypes(node.op, node.attributes, types);
    if (!result.ok() || (*result)[0] != sweep.value(node.outputs[0]).type()) {
      continue;
    }
    node.inputs[i] = broadcast->inputs[0];
    sweep.MarkChanged();
  }
}

// Returns whether the node still gives what it gives if its operand `id` has
// this shape. It does not if no other operand has as many axes as the result.
bool KeepsItsType(Sweep& sweep, const Node& node, ValueId id,
                  const Shape& shape) {
  TensorTypes types;
  for (const ValueId input : node.inputs) {
    types.push_back(sweep.value(input).type());
    if (input == id) types.back().shape = shape;
  }
  const auto result = InferTypes(node.op, node.attributes, types);
  return result.ok() && (*result)[0] == sweep.value(node.outputs[0]).type();
}

// Reshapes a number for each channel from [1, C, 1, 1] to [C, 1, 1]. As a 4-D
// value it would be converted to the layout of the image.
absl::Status TrimLeadingOnes(Sweep& sweep, Node& node) {
  if (sweep.shape(node.outputs[0]).rank() != 4) return absl::OkStatus();
  for (ValueId& id : node.inputs) {
    const Shape shape = sweep.shape(id);
    if (shape.rank() != 4 || shape[0] != 1 || !IsKnownAtLoad(sweep.value(id)) ||
        sweep.shape(node.outputs[0]) == shape) {
      continue;
    }
    ASSIGN_OR_RETURN(const Shape trimmed,
                     Shape::Create(shape.dims().subspan(1)));
    if (!KeepsItsType(sweep, node, id, trimmed)) continue;
    ASSIGN_OR_RETURN(id, sweep.Reshape(id, trimmed));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SimplifyArithmetic(Sweep& sweep, Node& node) {
  if (node.op == Op::kBinary || node.op == Op::kWhere) {
    ReadBeforeBroadcast(sweep, node);
    RETURN_IF_ERROR(TrimLeadingOnes(sweep, node));
  }
  if (node.op == Op::kAdd) {
    ReplacedByOperand(sweep, node, BinaryFunction::kAdd);
    return absl::OkStatus();
  }
  const BinaryFunction* function = FunctionOf(node);
  if (function == nullptr || ReplacedByOperand(sweep, node, *function)) {
    return absl::OkStatus();
  }
  if (*function == BinaryFunction::kPower) SimplifyPower(sweep, node);
  if (*function == BinaryFunction::kAdd) SimplifySum(sweep, node);
  return absl::OkStatus();
}

absl::Status Simplify(Graph& graph) {
  for (int i = 0; i < kMaxSweeps; ++i) {
    Sweep sweep(graph);
    RETURN_IF_ERROR(
        sweep.Run({SimplifyMovement, SimplifyArithmetic, SimplifyProducts}));
    if (!sweep.changed()) break;
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
