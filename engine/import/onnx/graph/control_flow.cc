#include "engine/import/onnx/graph/control_flow.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/run_loop.h"
#include "engine/import/onnx/graph/stages.h"

namespace gpupool::engine::onnx_import {
namespace {

using Entries = std::vector<Entry>;

absl::StatusOr<const onnx::GraphProto*> Body(const NodeContext& ctx,
                                             absl::string_view name) {
  const onnx::AttributeProto* attribute = ctx.attribute(name);
  if (attribute == nullptr || !attribute->has_g()) {
    return ctx.Refuse("attribute '", name, "' must be a graph");
  }
  return &attribute->g();
}

absl::StatusOr<bool> Truth(NodeContext& ctx, const Entry& entry,
                           absl::string_view what) {
  ASSIGN_OR_RETURN(const HostTensor tensor,
                   ctx.importer().Numbers(entry, ctx.Name(), what));
  if (tensor.numbers.size() != 1) {
    return ctx.Refuse(what, " has ", tensor.numbers.size(),
                      " elements; it must have one");
  }
  return tensor.numbers[0] != 0;
}

void Define(NodeContext& ctx, int i, const Entry& entry) {
  if (ctx.wants_output(i)) {
    ctx.importer().scope().Define(ctx.node().output(i), entry);
  }
}

absl::StatusOr<Entry> InputEntry(NodeContext& ctx, int i) {
  const Entry* entry = ctx.importer().Find(ctx.node().input(i));
  if (entry == nullptr) return ctx.Refuse("input ", i, " is missing");
  return *entry;
}

// Checks that both branches declare as many outputs as the node has, with the
// same types of elements.
absl::Status CheckBranches(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const onnx::GraphProto* one, Body(ctx, "then_branch"));
  ASSIGN_OR_RETURN(const onnx::GraphProto* other, Body(ctx, "else_branch"));
  if (one->output_size() != ctx.output_count() ||
      other->output_size() != ctx.output_count()) {
    return ctx.Refuse("the branches have ", one->output_size(), " and ",
                      other->output_size(), " outputs for ", ctx.output_count(),
                      " of the node");
  }
  for (int i = 0; i < ctx.output_count(); ++i) {
    const int a = one->output(i).type().tensor_type().elem_type();
    const int b = other->output(i).type().tensor_type().elem_type();
    if (a == 0 || b == 0 || a == b) continue;
    return ctx.Refuse("output ", i, " is ", OnnxTypeName(a),
                      " in one branch and ", OnnxTypeName(b), " in the other");
  }
  return absl::OkStatus();
}

// Returns which branch is taken. The host must tell if that is computed.
absl::StatusOr<bool> Branch(NodeContext& ctx, const Entry& condition) {
  GraphImporter& importer = ctx.importer();
  if (importer.HasNumbers(condition) || !importer.stages().on()) {
    return Truth(ctx, condition, "the condition");
  }
  RETURN_IF_ERROR(CheckBranches(ctx));
  ASSIGN_OR_RETURN(const ValueId value,
                   importer.Materialize(condition, MemoryClass::kWeight));
  if (!value.valid()) return ctx.Refuse("the condition is not a tensor");
  return AskForBranch(ctx, value);
}

absl::Status ImportIf(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  if (!ctx.has_input(0)) return ctx.Refuse("the condition is missing");
  ASSIGN_OR_RETURN(const Entry condition, InputEntry(ctx, 0));
  ASSIGN_OR_RETURN(const bool taken, Branch(ctx, condition));
  ASSIGN_OR_RETURN(const onnx::GraphProto* body,
                   Body(ctx, taken ? "then_branch" : "else_branch"));
  ASSIGN_OR_RETURN(const Entries outputs, importer.ImportSubgraph(*body, {}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Define(ctx, static_cast<int>(i), outputs[i]);
  }
  return absl::OkStatus();
}

// Stacks the values of all iterations along a new axis.
absl::StatusOr<ValueId> Stack(NodeContext& ctx, const ValueIds& rows,
                              int axis) {
  ValueIds parts;
  for (ValueId row : rows) {
    std::vector<int64_t> dims = Dims(ctx.shape(row));
    dims.insert(dims.begin() + axis, 1);
    ASSIGN_OR_RETURN(parts.emplace_back(), ReshapeMaybeEmpty(ctx, row, dims));
  }
  return Concat(ctx, parts, axis);
}

struct LoopLimits {
  // One more than allowed, so that a loop without a count meets the limit.
  int64_t trips = kMaxLoopIterations + 1;
  bool goes_on = true;
};

absl::StatusOr<LoopLimits> Limits(NodeContext& ctx) {
  LoopLimits limits;
  if (ctx.has_input(0)) {
    ASSIGN_OR_RETURN(limits.trips, KnownInt(ctx, 0, "the trip count"));
  }
  if (ctx.has_input(1)) {
    ASSIGN_OR_RETURN(const Entry condition, InputEntry(ctx, 1));
    ASSIGN_OR_RETURN(limits.goes_on, Truth(ctx, condition, "the condition"));
  }
  return limits;
}

class LoopImport {
 public:
  LoopImport(NodeContext& ctx, const onnx::GraphProto& body)
      : ctx_(ctx), body_(body) {}

  absl::Status Run() {
    const int carried = std::max(ctx_.input_count() - 2, 0);
    if (body_.input_size() != carried + 2 ||
        body_.output_size() < carried + 1) {
      return ctx_.Refuse("the body has ", body_.input_size(), " inputs and ",
                         body_.output_size(), " outputs for ", carried,
                         " values carried through the loop");
    }
    Stages& stages = ctx_.importer().stages();
    const std::string place = ctx_.importer().Place();
    if (stages.on() && (stages.Runs(place) || !HasLimits())) {
      return RunLoop(ctx_, body_);
    }
    const Unrolling unrolling(stages, place);
    for (int i = 0; i < carried; ++i) {
      ASSIGN_OR_RETURN(state_.emplace_back(), InputEntry(ctx_, i + 2));
    }
    rows_.resize(static_cast<size_t>(body_.output_size() - carried - 1));
    ASSIGN_OR_RETURN(LoopLimits limits, Limits(ctx_));
    for (int64_t i = 0; i < limits.trips && limits.goes_on; ++i) {
      if (i >= kMaxLoopIterations) {
        return ctx_.Refuse("more than ", kMaxLoopIterations, " iterations");
      }
      ASSIGN_OR_RETURN(limits.goes_on, Iterate(i, i + 1 < limits.trips));
    }
    return SetOutputs();
  }

 private:
  // Returns whether the trip count and the first condition are known.
  bool HasLimits() const {
    return (!ctx_.has_input(0) || ctx_.IsKnown(0)) &&
           (!ctx_.has_input(1) || ctx_.IsKnown(1));
  }

  // Runs iteration i. Returns whether the loop goes on, and false without
  // looking at the condition unless `ask` is set.
  absl::StatusOr<bool> Iterate(int64_t i, bool ask) {
    // The condition is true in each iteration that runs.
    Entries inputs{
        Entry::Tensor(ctx_.Scalar(DType::kInt64, static_cast<double>(i))),
        Entry::Tensor(ctx_.Scalar(DType::kBool, 1))};
    inputs.insert(inputs.end(), state_.begin(), state_.end());
    ASSIGN_OR_RETURN(Entries outputs,
                     ctx_.importer().ImportSubgraph(body_, inputs));
    for (size_t row = 0; row < rows_.size(); ++row) {
      ASSIGN_OR_RETURN(
          rows_[row].emplace_back(),
          ctx_.importer().Materialize(outputs[1 + state_.size() + row],
                                      MemoryClass::kWeight));
      if (!rows_[row].back().valid()) {
        return ctx_.Refuse("a scan output is not a tensor");
      }
    }
    const Entry condition = outputs[0];
    for (size_t k = 0; k < state_.size(); ++k) state_[k] = outputs[k + 1];
    if (!ask) return false;
    if (ctx_.importer().stages().on() && condition.is_tensor() &&
        !ctx_.importer().HasNumbers(condition)) {
      return ctx_.importer().stages().RunLoops(ctx_.Name());
    }
    return Truth(ctx_, condition, "the condition");
  }

  absl::Status SetOutputs() {
    const int carried = static_cast<int>(state_.size());
    for (int i = 0; i < carried; ++i) {
      Define(ctx_, i, state_[static_cast<size_t>(i)]);
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      const int output = carried + static_cast<int>(row);
      if (!ctx_.wants_output(output)) continue;
      ASSIGN_OR_RETURN(const ValueId y,
                       rows_[row].empty()
                           ? NoRows(ctx_, body_.output(output + 1))
                           : Stack(ctx_, rows_[row], 0));
      ctx_.Set(output, y);
    }
    return absl::OkStatus();
  }

  NodeContext& ctx_;
  const onnx::GraphProto& body_;
  Entries state_;
  std::vector<ValueIds> rows_;  // by scan output, by iteration
};

absl::Status ImportLoop(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const onnx::GraphProto* body, Body(ctx, "body"));
  return LoopImport(ctx, *body).Run();
}

// Returns the axes or directions of scan inputs or outputs, one for each.
absl::StatusOr<std::vector<int64_t>> PerScan(NodeContext& ctx,
                                             absl::string_view name,
                                             size_t count) {
  ASSIGN_OR_RETURN(std::vector<int64_t> numbers, ctx.Ints(name, {}));
  if (numbers.empty()) numbers.assign(count, 0);
  if (numbers.size() != count) {
    return ctx.Refuse("attribute '", name, "' has ", numbers.size(),
                      " numbers for ", count, " tensors");
  }
  return numbers;
}

// Scan from opset 9 on. In opset 8 it has a batch dimension and an input of
// lengths, and runs once for each element of the batch.
class ScanImport {
 public:
  ScanImport(NodeContext& ctx, const onnx::GraphProto& body, size_t scanned)
      : ctx_(ctx), body_(body), scanned_(scanned) {}

  // Runs the scan. `inputs` are the state and then the scanned tensors. Returns
  // the state and then the stacked tensors.
  absl::StatusOr<ValueIds> Run(const ValueIds& inputs) {
    const size_t states = inputs.size() - scanned_;
    if (static_cast<size_t>(body_.output_size()) < states) {
      return ctx_.Refuse("the body has too few outputs");
    }
    stacked_ = static_cast<size_t>(body_.output_size()) - states;
    RETURN_IF_ERROR(ReadAttributes());
    state_.assign(inputs.begin(), inputs.begin() + static_cast<int>(states));
    sources_.assign(inputs.begin() + static_cast<int>(states), inputs.end());
    rows_.resize(stacked_);
    ASSIGN_OR_RETURN(const int64_t length, Length());
    for (int64_t i = 0; i < length; ++i) RETURN_IF_ERROR(Iterate(i, length));
    return Outputs();
  }

 private:
  absl::Status ReadAttributes() {
    // Opset 8 uses this name for the directions and has no axes.
    const bool old = ctx_.has_attribute("directions");
    ASSIGN_OR_RETURN(
        directions_,
        PerScan(ctx_, old ? "directions" : "scan_input_directions", scanned_));
    ASSIGN_OR_RETURN(axes_, PerScan(ctx_, "scan_input_axes", scanned_));
    ASSIGN_OR_RETURN(output_axes_, PerScan(ctx_, "scan_output_axes", stacked_));
    ASSIGN_OR_RETURN(output_directions_,
                     PerScan(ctx_, "scan_output_directions", stacked_));
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Length() {
    int64_t length = -1;
    for (size_t k = 0; k < scanned_; ++k) {
      ASSIGN_OR_RETURN(const int axis,
                       ctx_.Axis(axes_[k], ctx_.rank(sources_[k])));
      axes_[k] = axis;
      const int64_t size = ctx_.shape(sources_[k])[axis];
      if (length >= 0 && size != length) {
        return ctx_.Refuse("scanned tensors have ", length, " and ", size,
                           " elements");
      }
      length = size;
    }
    if (length < 1 || length > kMaxLoopIterations) {
      return ctx_.Refuse("scans ", length, " elements; from 1 to ",
                         kMaxLoopIterations, " are possible");
    }
    return length;
  }

  absl::Status Iterate(int64_t i, int64_t length) {
    // A scan is always unrolled.
    const Unrolling unrolling(ctx_.importer().stages(), "");
    Entries inputs;
    for (ValueId state : state_) inputs.push_back(Entry::Tensor(state));
    for (size_t k = 0; k < scanned_; ++k) {
      const int64_t row = directions_[k] == 0 ? i : length - 1 - i;
      ASSIGN_OR_RETURN(
          const ValueId x,
          TakeRow(ctx_, sources_[k], static_cast<int>(axes_[k]), row));
      inputs.push_back(Entry::Tensor(x));
    }
    ASSIGN_OR_RETURN(Entries outputs,
                     ctx_.importer().ImportSubgraph(body_, inputs));
    for (size_t k = 0; k < outputs.size(); ++k) {
      ASSIGN_OR_RETURN(const ValueId y, ctx_.importer().Materialize(
                                            outputs[k], MemoryClass::kWeight));
      if (!y.valid()) return ctx_.Refuse("an output is not a tensor");
      if (k < state_.size()) {
        state_[k] = y;
      } else {
        rows_[k - state_.size()].push_back(y);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ValueIds> Outputs() {
    ValueIds outputs = state_;
    for (size_t k = 0; k < stacked_; ++k) {
      if (output_directions_[k] != 0) {
        std::reverse(rows_[k].begin(), rows_[k].end());
      }
      ASSIGN_OR_RETURN(const int axis,
                       ctx_.Axis(output_axes_[k], ctx_.rank(rows_[k][0]) + 1));
      ASSIGN_OR_RETURN(outputs.emplace_back(), Stack(ctx_, rows_[k], axis));
    }
    return outputs;
  }

  NodeContext& ctx_;
  const onnx::GraphProto& body_;
  const size_t scanned_;
  size_t stacked_ = 0;
  std::vector<int64_t> directions_, axes_, output_axes_, output_directions_;
  ValueIds state_, sources_;
  std::vector<ValueIds> rows_;  // by scan output, by iteration
};

// Runs a scan of opset 8, in which dimension 0 of all inputs is the batch.
absl::StatusOr<ValueIds> ScanBatch(NodeContext& ctx,
                                   const onnx::GraphProto& body,
                                   const ValueIds& inputs, size_t scanned) {
  int64_t batch = 0;
  for (ValueId input : inputs) {
    if (ctx.rank(input) < 1) return ctx.Refuse("an input has no dimension");
    batch = ctx.shape(input)[0];
  }
  if (batch < 1 || batch > kMaxLoopIterations) {
    return ctx.Refuse("a batch of ", batch, " is not supported");
  }
  std::vector<ValueIds> results;
  for (int64_t b = 0; b < batch; ++b) {
    ValueIds rows;
    for (ValueId input : inputs) {
      if (ctx.shape(input)[0] != batch) return ctx.Refuse("batches differ");
      ASSIGN_OR_RETURN(rows.emplace_back(), TakeRow(ctx, input, 0, b));
    }
    ASSIGN_OR_RETURN(const ValueIds outputs,
                     ScanImport(ctx, body, scanned).Run(rows));
    results.resize(outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      results[k].push_back(outputs[k]);
    }
  }
  ValueIds stacked;
  for (const ValueIds& rows : results) {
    ASSIGN_OR_RETURN(stacked.emplace_back(), Stack(ctx, rows, 0));
  }
  return stacked;
}

absl::Status ImportScan(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const onnx::GraphProto* body, Body(ctx, "body"));
  ASSIGN_OR_RETURN(const int64_t scanned, ctx.Int("num_scan_inputs", 0));
  const auto opset = importer.scope().operator_sets().find("");
  const bool batched =
      opset != importer.scope().operator_sets().end() && opset->second < 9;
  const int first = batched ? 1 : 0;
  if (batched && ctx.has_input(0)) {
    return ctx.Unsupported("sequence lengths are not supported");
  }
  if (scanned < 1 || scanned > ctx.input_count() - first) {
    return ctx.Refuse("num_scan_inputs is ", scanned, " of ",
                      ctx.input_count() - first, " inputs");
  }
  ValueIds inputs;
  for (int i = first; i < ctx.input_count(); ++i) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), ctx.Input(i));
  }
  const auto count = static_cast<size_t>(scanned);
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   batched ? ScanBatch(ctx, *body, inputs, count)
                           : ScanImport(ctx, *body, count).Run(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    ctx.Set(static_cast<int>(i), outputs[i]);
  }
  return absl::OkStatus();
}

}  // namespace

NodeImport FindControlFlow(absl::string_view name) {
  if (name == "If") return ImportIf;
  if (name == "Loop") return ImportLoop;
  if (name == "Scan") return ImportScan;
  return nullptr;
}

}  // namespace gpupool::engine::onnx_import
