#include "tests/conformance/onnx/case_runner.h"

#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/portable/portable_backend.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/passes/pipeline.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "engine/tensor/convert.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::onnx_import {
namespace {

using TensorsByName = std::map<std::string, HostTensor>;

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
    results = testing::RunNodes(device, graph, given, persistents);
  }
  RETURN_IF_ERROR(results.status());
  TensorsByName outputs;
  for (const ModelPort& port : model.outputs) {
    outputs[port.name] = {port.dtype, port.shape,
                          std::move((*results)[port.name])};
  }
  return outputs;
}

// Everything that one program needs to run on the CPU. Members are in the order
// of their lifetimes.
class CpuRun {
 public:
  CpuRun() : backend_(1), allocator_("cpu:0", uint64_t{1} << 33, &source_) {}

  absl::Status Compile(Graph graph) {
    RETURN_IF_ERROR(RunPasses(graph, {}, nullptr));
    ASSIGN_OR_RETURN(WeightLayout layout, WeightLayout::Create({&graph}));
    ASSIGN_OR_RETURN(Program program,
                     Program::Compile(std::move(graph), &backend_));
    ASSIGN_OR_RETURN(
        WeightStore weights,
        WeightStore::Create(std::move(layout), "case", &allocator_));
    weights_ = std::make_unique<WeightStore>(std::move(weights));
    ASSIGN_OR_RETURN(
        arena_, allocator_.Allocate(program.bytes().arena, {"case", "arena"}));
    ASSIGN_OR_RETURN(
        executor_,
        Executor::Create(std::move(program), *weights_,
                         {arena_.data(), arena_.bytes()}, "case", &allocator_));
    return absl::OkStatus();
  }

  absl::Status Run(const OnnxFile& file, const TensorsByName& inputs) {
    ASSIGN_OR_RETURN(const WeightView view, WeightView::OfNew(*weights_));
    for (const WeightEntry& entry : view.layout().entries()) {
      RETURN_IF_ERROR(CopyTensor(*file.stored(entry.name), file.external(),
                                 view.bytes_of(entry)));
    }
    RETURN_IF_ERROR(view.Commit());
    RETURN_IF_ERROR(executor_->Load());
    for (const auto& [name, tensor] : inputs) {
      const absl::Span<std::byte> bytes = executor_->input(name);
      if (bytes.empty()) continue;
      WriteFromDoubles(tensor.dtype, tensor.numbers, 1, bytes.data());
    }
    return executor_->Run();
  }

  HostTensor Output(const ModelPort& port) const {
    HostTensor tensor{port.dtype, port.shape, {}};
    tensor.numbers.resize(static_cast<size_t>(port.shape.elements()));
    ReadAsDoubles(port.dtype, executor_->output(port.name).data(), 1,
                  absl::MakeSpan(tensor.numbers));
    return tensor;
  }

 private:
  CpuBackend backend_;
  HostPageSource source_;
  CachingAllocator allocator_;
  std::unique_ptr<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> executor_;
};

HostTensor ConstantOutput(const Value& value) {
  HostTensor tensor{value.dtype, value.shape, value.constant};
  if (tensor.numbers.size() == 1) {
    tensor.numbers.assign(static_cast<size_t>(value.shape.elements()),
                          tensor.numbers[0]);
  }
  return tensor;
}

absl::StatusOr<TensorsByName> RunOnCpu(const OnnxFile& file,
                                       const ModelGraph& model,
                                       const TensorsByName& inputs) {
  TensorsByName outputs;
  // Values that were computed at import need no program.
  Graph graph = model.graph;
  graph.mutable_outputs().clear();
  for (const ModelPort& port : model.outputs) {
    const Value& value = graph.value(port.value);
    if (value.kind == ValueKind::kConstant) {
      outputs[port.name] = ConstantOutput(value);
    } else {
      graph.AddOutput(port.name, port.value);
    }
  }
  if (graph.outputs().empty()) return outputs;
  CpuRun run;
  RETURN_IF_ERROR(run.Compile(std::move(graph)));
  RETURN_IF_ERROR(run.Run(file, inputs));
  for (const ModelPort& port : model.outputs) {
    if (!outputs.contains(port.name)) outputs[port.name] = run.Output(port);
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
                       ? RunOnCpu(file, model, inputs)
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
