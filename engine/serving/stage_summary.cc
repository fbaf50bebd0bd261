#include "engine/serving/stage_summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gpupool::engine {
namespace {

template <typename... Parts>
absl::Status RefuseSummary(const std::string& chooser, const ServedPort& output,
                           const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(chooser, chooser.empty() ? "" : ": ", "output '",
                   output.port.name, "' ", parts...));
}

}  // namespace

absl::Status StageSummary::Add(const ModelGraph& stage) {
  for (const PersistentSpec& spec : stage.persistents) {
    if (!names_.insert(spec.name).second) continue;
    programs_.persistents.push_back(spec);
    if (spec.is_parameter()) {
      programs_.parameters += static_cast<uint64_t>(spec.shape.elements());
    }
  }
  for (const std::string& warning : stage.warnings) {
    std::vector<std::string>& all = programs_.warnings;
    if (std::find(all.begin(), all.end(), warning) == all.end()) {
      all.push_back(warning);
    }
  }
  // The inputs of the first stage are those of the file.
  if (!any_) {
    any_ = true;
    programs_.staged = true;
    programs_.batched = false;
    for (const ModelPort& port : stage.inputs) {
      programs_.inputs.push_back({port});
    }
  }
  if (stage.stage_end == nullptr) return AddOutputs(stage);
  if (stage.stage_end->kind == StageEnd::Kind::kBranch) {
    chooser_ = stage.stage_end->node;
  }
  return absl::OkStatus();
}

absl::Status StageSummary::AddOutputs(const ModelGraph& last) {
  std::vector<ServedPort>& outputs = programs_.outputs;
  if (outputs.empty()) {
    programs_.layers = last.layers;
    for (const ModelPort& port : last.outputs) outputs.push_back({port});
  }
  if (outputs.size() != last.outputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        chooser_, ": the model has ", outputs.size(), " or ",
        last.outputs.size(), " outputs, depending on computed values"));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ModelPort& port = last.outputs[i];
    const Shape& first = outputs[i].port.shape;
    if (outputs[i].port.dtype != port.dtype) {
      return RefuseSummary(
          chooser_, outputs[i], "is ", DTypeName(outputs[i].port.dtype), " or ",
          DTypeName(port.dtype), ", depending on computed values");
    }
    if (first.rank() != port.shape.rank()) {
      return RefuseSummary(chooser_, outputs[i], "has ", first.rank(), " or ",
                           port.shape.rank(),
                           " dimensions, depending on computed ",
                           "values; it must have one number of them");
    }
    std::vector<int64_t> most;
    for (int axis = 0; axis < first.rank(); ++axis) {
      // Branches may give different sizes. The largest bounds what a client can
      // get.
      most.push_back(std::max(first[axis], port.shape[axis]));
    }
    const absl::StatusOr<Shape> shape = Shape::CreateMaybeEmpty(most);
    if (!shape.ok()) {
      return RefuseSummary(chooser_, outputs[i], shape.status().message());
    }
    outputs[i].port.shape = *shape;
    // A type that not all branches have is not served.
    if (outputs[i].port.declared != port.declared) {
      outputs[i].port.declared.reset();
    }
  }
  return absl::OkStatus();
}

void StageSummary::Finish() {
  for (ServedPort& output : programs_.outputs) {
    const Shape& shape = output.port.shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      output.variable.push_back({.axis = axis, .maximum = shape[axis]});
    }
  }
}

}  // namespace gpupool::engine
