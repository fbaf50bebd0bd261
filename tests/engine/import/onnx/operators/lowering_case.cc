#include "tests/engine/import/onnx/operators/lowering_case.h"

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/base/status_macros.h"
#include "engine/graph/verify.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {
namespace {

HostTensor Make(DType dtype, const std::vector<int64_t>& dims,
                std::vector<double> numbers) {
  return {dtype, *Shape::CreateMaybeEmpty(dims), std::move(numbers)};
}

absl::StatusOr<std::shared_ptr<const OnnxFile>> Parse(const LoweringCase& one) {
  std::string sets = absl::StrCat("\"\" : ", one.opset);
  if (one.training_domain) {
    absl::StrAppend(&sets, ", \"ai.onnx.preview.training\" : 1");
  }
  for (const auto& [domain, version] : one.domains) {
    absl::StrAppend(&sets, ", \"", domain, "\" : ", version);
  }
  const std::string text = absl::StrCat("<ir_version: 8, opset_import: [", sets,
                                        "]> agraph ", one.graph);
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  if (!status.IsOK()) return absl::InternalError(status.ErrorMessage());
  return OnnxFile::Parse(model.SerializeAsString(), ExternalFiles());
}

absl::StatusOr<ModelGraph> Import(const OnnxFile& file,
                                  const LoweringCase& one) {
  OnnxBuildOptions options;
  options.training = one.training;
  for (const auto& [name, tensor] : one.inputs) {
    options.input_shapes[name] = tensor.shape;
  }
  for (const std::string& name : one.bound) {
    options.bound[name] = one.inputs.at(name);
  }
  return ImportOnnx(file, options);
}

}  // namespace

HostTensor Floats(std::vector<int64_t> dims, std::vector<double> numbers) {
  return Make(DType::kFloat32, dims, std::move(numbers));
}

HostTensor Ints(std::vector<int64_t> dims, std::vector<double> numbers) {
  return Make(DType::kInt64, dims, std::move(numbers));
}

absl::StatusOr<ModelGraph> ImportLowering(const LoweringCase& one) {
  ASSIGN_OR_RETURN(const auto file, Parse(one));
  return Import(*file, one);
}

absl::StatusOr<std::vector<HostTensor>> RunLowering(const LoweringCase& one) {
  ASSIGN_OR_RETURN(const auto file, Parse(one));
  ASSIGN_OR_RETURN(ModelGraph model, Import(*file, one));
  for (const ModelPort& port : model.outputs) {
    model.graph.AddOutput(port.name, port.value);
  }
  RETURN_IF_ERROR(Verify(model.graph));
  reference::NamedNumbers inputs, persistents;
  for (const Value& value : model.graph.values()) {
    if (value.kind == ValueKind::kInput) {
      const auto given = one.inputs.find(value.name);
      inputs[value.name] =
          given != one.inputs.end()
              ? given->second.numbers
              : reference::Numbers(static_cast<size_t>(value.shape.elements()),
                                   1);
    } else if (value.kind == ValueKind::kPersistent) {
      ASSIGN_OR_RETURN(const HostTensor stored,
                       ReadTensor(*file->stored(value.name), file->external()));
      persistents[value.name] = stored.numbers;
    }
  }
  ASSIGN_OR_RETURN(const auto numbers,
                   reference::Run(model.graph, inputs, persistents));
  std::vector<HostTensor> outputs;
  for (const ModelPort& port : model.outputs) {
    outputs.push_back({port.dtype, port.shape, numbers.at(port.name)});
  }
  return outputs;
}

int CountOps(const Graph& graph, Op op) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(),
                    [op](const Node& node) { return node.op == op; }));
}

}  // namespace gpupool::engine::onnx_import
