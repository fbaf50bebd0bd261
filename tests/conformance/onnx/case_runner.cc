#include "tests/conformance/onnx/case_runner.h"

#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/portable_backend.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "engine/passes/pipeline.h"
#include "tests/conformance/onnx/cpu_run.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::onnx_import {
namespace {

// Distributes sequences over the ports that the import makes from them.
TensorsByName Spread(const std::vector<CaseValue>& values) {
  TensorsByName tensors;
  for (const CaseValue& value : values) {
    if (value.tensor.has_value()) tensors[value.name] = *value.tensor;
    if (!value.sequence.has_value()) continue;
    for (size_t i = 0; i < value.sequence->size(); ++i) {
      tensors[absl::StrCat(value.name, "[", i, "]")] = (*value.sequence)[i];
    }
  }
  return tensors;
}

OnnxBuildOptions OptionsFor(const std::vector<CaseValue>& inputs) {
  OnnxBuildOptions options;
  for (const CaseValue& input : inputs) {
    if (input.sequence.has_value()) {
      options.sequence_lengths[input.name] =
          static_cast<int>(input.sequence->size());
    } else {
      // Only used for optionals.
      options.sequence_lengths[input.name] = input.tensor.has_value() ? 1 : -1;
    }
  }
  for (const auto& [name, tensor] : Spread(inputs)) {
    options.input_shapes[name] = tensor.shape;
    if (tensor.shape.elements() == 0) options.bound[name] = tensor;
  }
  return options;
}

// Returns the inputs by port. An optional tensor has the port "<name>[0]".
TensorsByName InputsFor(const std::vector<CaseValue>& inputs) {
  TensorsByName tensors = Spread(inputs);
  for (const CaseValue& input : inputs) {
    if (input.tensor.has_value()) {
      tensors[absl::StrCat(input.name, "[0]")] = *input.tensor;
    }
  }
  return tensors;
}

// Runs on the reference back end, or with all passes on the portable one.
absl::StatusOr<TensorsByName> RunOnNumbers(const OnnxFile& file,
                                           const ModelGraph& model,
                                           const TensorsByName& inputs,
                                           CaseBackend backend) {
  reference::NamedNumbers given, persistents;
  for (const ModelPort& port : model.inputs) {
    const auto input = inputs.find(port.name);
    if (input == inputs.end()) {
      return absl::InternalError(absl::StrCat("no input '", port.name, "'"));
    }
    given[port.name] = input->second.numbers;
  }
  for (const PersistentSpec& persistent : model.persistents) {
    ASSIGN_OR_RETURN(
        HostTensor tensor,
        ReadTensor(*file.stored(persistent.name), file.external()));
    persistents[persistent.name] = std::move(tensor.numbers);
  }
  absl::StatusOr<reference::NamedNumbers> results;
  if (backend == CaseBackend::kReference) {
    results = reference::Run(model.graph, given, persistents,
                             {.round_to_dtype = true});
  } else {
    Graph graph = model.graph;
    RETURN_IF_ERROR(RunPasses(graph, {}, nullptr));
    portable::PortableBackend device;
    results = testing::RunNodes({.backend = device}, graph, given, persistents);
  }
  RETURN_IF_ERROR(results.status());
  TensorsByName outputs;
  for (const ModelPort& port : model.outputs) {
    outputs[port.name] = {port.dtype, port.shape,
                          std::move((*results)[port.name])};
  }
  return outputs;
}

bool IsClose(DType dtype, double got, double expected) {
  if (std::isnan(got) || std::isnan(expected)) {
    return std::isnan(got) && std::isnan(expected);
  }
  if (got == expected) return true;
  if (!IsFloating(dtype) || std::isinf(expected)) return false;
  return std::abs(got - expected) <= 1e-7 + 1e-3 * std::abs(expected);
}

absl::Status Compare(const std::string& name, const HostTensor& got,
                     const HostTensor& expected) {
  const auto wrong = [&name](const auto&... parts) {
    return absl::DataLossError(absl::StrCat("output '", name, "': ", parts...));
  };
  if (got.dtype != expected.dtype || got.shape != expected.shape) {
    return wrong(DTypeName(got.dtype), " ", got.shape.ToString(),
                 " instead of ", DTypeName(expected.dtype), " ",
                 expected.shape.ToString());
  }
  if (got.numbers.size() != expected.numbers.size()) {
    return wrong(got.numbers.size(), " numbers instead of ",
                 expected.numbers.size());
  }
  for (size_t i = 0; i < got.numbers.size(); ++i) {
    if (IsClose(got.dtype, got.numbers[i], expected.numbers[i])) continue;
    return wrong("element ", i, " is ", got.numbers[i], " instead of ",
                 expected.numbers[i]);
  }
  return absl::OkStatus();
}

absl::Status RunDataSet(const OnnxFile& file, const DataSet& data,
                        CaseBackend backend) {
  ASSIGN_OR_RETURN(ModelGraph model, ImportBinding(file, data, false));
  for (const ModelPort& port : model.outputs) {
    model.graph.AddOutput(port.name, port.value);
  }
  const TensorsByName inputs = InputsFor(data.inputs);
  ASSIGN_OR_RETURN(TensorsByName got,
                   backend == CaseBackend::kCpu
                       ? RunModelOnCpu(file, model, inputs)
                       : RunOnNumbers(file, model, inputs, backend));
  for (const auto& [name, expected] : Spread(data.outputs)) {
    if (!got.contains(name)) {
      return absl::DataLossError(absl::StrCat("no output '", name, "'"));
    }
    RETURN_IF_ERROR(Compare(name, got[name], expected));
    got.erase(name);
  }
  if (got.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("output '", got.begin()->first, "' is not expected"));
}

}  // namespace

absl::StatusOr<ModelGraph> ImportBinding(const OnnxFile& file,
                                         const DataSet& data, bool training) {
  const TensorsByName inputs = InputsFor(data.inputs);
  OnnxBuildOptions options = OptionsFor(data.inputs);
  options.training = training;
  for (const auto& [name, tensor] : inputs) {
    options.input_shapes[name] = tensor.shape;
  }
  for (;;) {
    absl::StatusOr<ModelGraph> model = ImportOnnx(file, options);
    const size_t bound = options.bound.size();
    for (const std::string& name : NeededInputs(model.status())) {
      const auto input = inputs.find(name);
      if (input != inputs.end()) options.bound[name] = input->second;
    }
    if (model.ok() || options.bound.size() == bound) return model;
  }
}

absl::Status RunCase(const Case& test, CaseBackend backend) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const OnnxFile> file,
                   OnnxFile::Open(test.folder + "/model.onnx"));
  RETURN_IF_ERROR(CheckOperators(*file));
  ASSIGN_OR_RETURN(const std::vector<DataSet> sets, ReadDataSets(test, *file));
  for (const DataSet& data : sets) {
    RETURN_IF_ERROR(RunDataSet(*file, data, backend));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine::onnx_import
