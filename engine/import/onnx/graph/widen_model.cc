#include "engine/import/onnx/graph/widen_model.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/passes/formats/widen_halves.h"

namespace gpupool::engine::onnx_import {
namespace {

// Gives the persistents the types that their values have now.
void UpdatePersistents(ModelGraph& model) {
  absl::flat_hash_map<absl::string_view, DType> types;
  for (const Value& value : model.graph.values()) {
    if (value.kind == ValueKind::kPersistent) types[value.name] = value.dtype;
  }
  for (PersistentSpec& persistent : model.persistents) {
    const auto found = types.find(persistent.name);
    if (found != types.end()) persistent.dtype = found->second;
  }
}

// Gives the outputs their values, cast to the types that the file declares.
absl::Status UpdateOutputs(const WidenModelOptions& options,
                           const std::vector<ValueId>& now, ModelGraph& model) {
  GraphBuilder builder(&model.graph);
  for (ModelPort& port : model.outputs) {
    port.value = now[static_cast<size_t>(port.value.index)];
    const DType dtype = builder.value(port.value).dtype;
    if (options.ports) port.dtype = dtype;
    if (dtype == port.dtype) continue;
    builder.SetSource(port.name, -1);
    ASSIGN_OR_RETURN(port.value, builder.EmitOne(Op::kCast, {port.value},
                                                 CastAttributes{port.dtype}));
  }
  if (!model.outputs.empty()) model.output = model.outputs[0].value;
  return absl::OkStatus();
}

}  // namespace

absl::Status WidenModel(const WidenModelOptions& options, ModelGraph& model) {
  ASSIGN_OR_RETURN(
      const std::vector<ValueId> now,
      WidenHalves({.inputs = options.ports, .roundings = options.roundings},
                  model.graph));
  UpdatePersistents(model);
  for (ModelPort& port : model.inputs) {
    port.dtype = model.graph.value(port.value).dtype;
  }
  return UpdateOutputs(options, now, model);
}

}  // namespace gpupool::engine::onnx_import
