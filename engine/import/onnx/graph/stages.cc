#include "engine/import/onnx/graph/stages.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

// Takes the rows of results from the answers and adds the results as inputs.
absl::StatusOr<ValueIds> TakeResults(NodeContext& ctx, const HostCall& call) {
  GraphImporter& importer = ctx.importer();
  const size_t nodes = importer.model().graph.nodes().size();
  const int64_t rows = importer.stages().Take(nodes).Next();
  ValueIds results;
  for (const TensorType& type : call.types(rows)) {
    const std::string name =
        StageInputName(importer.Place(), "result", results.size());
    ASSIGN_OR_RETURN(results.emplace_back(), StageInput(ctx, name, type));
  }
  return results;
}

// Converts between the tensors of the import and those of stages.
StageCall ToStageCall(const HostCall& call) {
  StageCall converted{.types = call.types, .most_rows = call.most_rows};
  converted.run = [run = call.run](const std::vector<StageNumbers>& operands)
      -> absl::StatusOr<StageCall::Results> {
    std::vector<HostTensor> tensors;
    for (const StageNumbers& operand : operands) {
      tensors.push_back(
          {operand.type.dtype, operand.type.shape, operand.numbers});
    }
    ASSIGN_OR_RETURN(HostCall::Results found, run(tensors));
    StageCall::Results results{.rows = found.rows};
    for (HostTensor& tensor : found.tensors) {
      results.tensors.push_back(
          {{tensor.dtype, tensor.shape}, std::move(tensor.numbers)});
    }
    return results;
  };
  return converted;
}

}  // namespace

absl::Status Stages::RunLoops(absl::string_view title) {
  // Only a Loop can run on the device. A Scan has no name in this list.
  if (std::find(unrolling_.begin(), unrolling_.end(), "") != unrolling_.end()) {
    return absl::UnimplementedError(absl::StrCat(
        title, ": what it computes must be known when the program is made, ",
        "since it is inside of a Scan; export that as a Loop"));
  }
  loops_to_run_ = unrolling_;
  // The import ends here and is repeated, with these loops no longer unrolled.
  return absl::AbortedError("a loop must run");
}

absl::Status Stages::End(StageEnd end, std::vector<StageOutput> outputs,
                         ValueIds live) {
  if (!unrolling_.empty()) return RunLoops(end.node);
  end_ = std::move(end);
  outputs_ = std::move(outputs);
  live_ = std::move(live);
  // The error carries the end up through all bodies that are being imported.
  return absl::AbortedError("the stage ends");
}

absl::StatusOr<ValueId> StageInput(NodeContext& ctx, const std::string& name,
                                   const TensorType& type) {
  // A program has no inputs without bytes.
  if (type.shape.elements() == 0) {
    return ctx.Constant({type.dtype, type.shape, {}});
  }
  return ctx.importer().values().builder().Input(name, type);
}

absl::StatusOr<bool> AskForBranch(NodeContext& ctx, ValueId condition) {
  GraphImporter& importer = ctx.importer();
  Stages& stages = importer.stages();
  const TensorType type = ctx.value(condition).type();
  if (type.shape.elements() != 1) {
    return ctx.Refuse("the condition is ", type.shape.ToString(),
                      "; it must have one element");
  }
  if (stages.HasAnswer()) {
    return stages.Take(importer.model().graph.nodes().size()).Next() != 0;
  }
  const std::string name = "\ncondition";
  return importer.EndStage({.kind = StageEnd::Kind::kBranch,
                            .node = ctx.Name(),
                            .place = importer.Place(),
                            .reads = {{name, type}}},
                           {{name, condition}});
}

absl::StatusOr<Shape> OperandShape(NodeContext& ctx,
                                   const HostOperand& operand) {
  if (ctx.IsKnown(operand.input) || !ctx.importer().stages().on()) {
    ASSIGN_OR_RETURN(const HostTensor known,
                     ctx.Known(operand.input, operand.what));
    return known.shape;
  }
  ASSIGN_OR_RETURN(const ValueId value, ctx.Input(operand.input));
  return ctx.shape(value);
}

Shape SmallerShape(absl::Span<const int64_t> dims) {
  const absl::StatusOr<Shape> shape = Shape::CreateMaybeEmpty(dims);
  return shape.ok() ? *shape : Shape();
}

absl::StatusOr<ValueIds> ComputeOnHost(NodeContext& ctx,
                                       const std::vector<HostOperand>& operands,
                                       const HostCall& call) {
  GraphImporter& importer = ctx.importer();
  const bool known = std::all_of(
      operands.begin(), operands.end(),
      [&](const HostOperand& operand) { return ctx.IsKnown(operand.input); });
  // Numbers that are known now need no stage of their own.
  if (known || !importer.stages().on()) {
    std::vector<HostTensor> tensors;
    for (const auto& [input, what] : operands) {
      ASSIGN_OR_RETURN(tensors.emplace_back(), ctx.Known(input, what));
    }
    auto results = call.run(tensors);
    if (!results.ok()) return ctx.Refuse(results.status().message());
    ValueIds constants;
    for (HostTensor& tensor : results->tensors) {
      constants.push_back(ctx.Constant(std::move(tensor)));
    }
    return constants;
  }
  if (importer.stages().HasAnswer()) return TakeResults(ctx, call);
  StageEnd end{.kind = StageEnd::Kind::kCompute,
               .node = ctx.Name(),
               .place = importer.Place(),
               .call = ToStageCall(call)};
  std::vector<StageOutput> outputs;
  for (const auto& [input, what] : operands) {
    ASSIGN_OR_RETURN(const ValueId value, ctx.Input(input));
    const TensorType type = ctx.value(value).type();
    if (type.shape.elements() > kMaxHostElements) {
      return ctx.Refuse(what, " has ", type.shape.elements(), " elements ",
                        type.shape.ToString(), "; the host reads at most ",
                        kMaxHostElements, " to find the number of results");
    }
    const std::string name = absl::StrCat("\noperand ", end.reads.size());
    end.reads.push_back({name, type});
    outputs.push_back({name, value});
  }
  return importer.EndStage(std::move(end), std::move(outputs), call.needed);
}

}  // namespace gpupool::engine::onnx_import
