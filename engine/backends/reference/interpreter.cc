#include "engine/backends/reference/interpreter.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/kernels.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::reference {
namespace {

class Interpreter {
 public:
  Interpreter(const Graph& graph, const RunOptions& options)
      : graph_(graph), options_(options), values_(graph.values().size()) {}

  absl::Status Fill(const NamedNumbers& inputs,
                    const NamedNumbers& persistents) {
    for (const Value& value : graph_.values()) {
      switch (value.kind) {
        case ValueKind::kInput:
          RETURN_IF_ERROR(Take("input", inputs, value));
          break;
        case ValueKind::kPersistent:
          RETURN_IF_ERROR(Take("persistent value", persistents, value));
          break;
        case ValueKind::kConstant:
          At(value.id) = value.constant;
          // One number stands for all elements.
          if (value.constant.size() == 1) {
            At(value.id).assign(Count(value), value.constant[0]);
          }
          break;
        case ValueKind::kDerived:
        case ValueKind::kIntermediate:
          break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunNodes() {
    for (const Node& node : graph_.nodes()) {
      RETURN_IF_ERROR(RunNode(node));
    }
    return absl::OkStatus();
  }

  NamedNumbers Outputs() {
    NamedNumbers outputs;
    for (const GraphOutput& output : graph_.outputs()) {
      outputs[output.name] = At(output.value);
    }
    return outputs;
  }

  void WriteUpdates(NamedNumbers& persistents) {
    for (const Value& value : graph_.values()) {
      if (value.alias.kind != AliasKind::kUpdate) continue;
      persistents[graph_.value(value.alias.of).name] = At(value.id);
    }
  }

 private:
  Numbers& At(ValueId id) { return values_[static_cast<size_t>(id.index)]; }
  static size_t Count(const Value& value) {
    return static_cast<size_t>(value.shape.elements());
  }

  absl::Status Take(absl::string_view what, const NamedNumbers& given,
                    const Value& value) {
    const auto found = given.find(value.name);
    if (found == given.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " '", value.name, "' is missing"));
    }
    if (found->second.size() != Count(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " '", value.name, "' has ", found->second.size(),
                       " numbers but is ", value.shape.ToString()));
    }
    At(value.id) = found->second;
    return absl::OkStatus();
  }

  absl::Status RunNode(const Node& node) {
    Operands operands{.node = node,
                      .input_types = graph_.InputTypes(node),
                      .output_types = graph_.OutputTypes(node)};
    for (ValueId id : node.inputs) operands.inputs.emplace_back(At(id));
    // Kernels expect outputs that hold zeros.
    for (ValueId id : node.outputs) {
      At(id).assign(Count(graph_.value(id)), 0);
      operands.outputs.push_back(absl::MakeSpan(At(id)));
    }
    RETURN_IF_ERROR(RunKernel(operands));
    for (ValueId id : node.outputs) Finish(graph_.value(id));
    return absl::OkStatus();
  }

  void Finish(const Value& value) {
    if (options_.round_to_dtype || !IsFloating(value.dtype)) {
      for (double& x : At(value.id)) x = RoundToDType(value.dtype, x);
    }
    if (value.alias.kind == AliasKind::kInPlace) Poison(Root(value.alias.of));
  }

  // Views share the memory of the value that they are views of.
  ValueId Root(ValueId id) const {
    while (graph_.value(id).alias.kind == AliasKind::kView) {
      id = graph_.value(id).alias.of;
    }
    return id;
  }

  // Overwrites a value that was updated in place, and its views, with NaN. So a
  // program that still reads it gives NaN.
  void Poison(ValueId root) {
    for (const Value& value : graph_.values()) {
      if (Root(value.id) != root) continue;
      At(value.id).assign(At(value.id).size(),
                          std::numeric_limits<double>::quiet_NaN());
    }
  }

  const Graph& graph_;
  const RunOptions& options_;
  std::vector<Numbers> values_;
};

}  // namespace

absl::StatusOr<NamedNumbers> Run(const Graph& graph, const NamedNumbers& inputs,
                                 NamedNumbers& persistents,
                                 const RunOptions& options) {
  Interpreter interpreter(graph, options);
  RETURN_IF_ERROR(interpreter.Fill(inputs, persistents));
  RETURN_IF_ERROR(interpreter.RunNodes());
  interpreter.WriteUpdates(persistents);
  return interpreter.Outputs();
}

}  // namespace gpupool::engine::reference
