#include "tests/conformance/onnx/cpu_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/passes/pipeline.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::onnx_import {
namespace {

// Everything that one program needs to run on the CPU. Members are in the order
// of their lifetimes.
class CpuRun {
 public:
  explicit CpuRun(int threads)
      : backend_(threads), allocator_("cpu:0", uint64_t{1} << 33, &source_) {}

  absl::Status Compile(Graph graph, DType compute) {
    RETURN_IF_ERROR(RunPasses(graph, {.compute = compute}, nullptr));
    ASSIGN_OR_RETURN(WeightLayout layout, WeightLayout::Create({&graph}));
    ASSIGN_OR_RETURN(Program program,
                     Program::Compile(std::move(graph), &backend_));
    ASSIGN_OR_RETURN(
        WeightStore weights,
        WeightStore::Create(std::move(layout), "case", &allocator_));
    weights_ = std::make_unique<WeightStore>(std::move(weights));
    ASSIGN_OR_RETURN(
        arena_, allocator_.Allocate(program.bytes().arena, {"case", "arena"}));
    ASSIGN_OR_RETURN(executor_,
                     Executor::Create(std::move(program),
                                      {.weights = *weights_,
                                       .arena = {arena_.data(), arena_.bytes()},
                                       .holder = "case",
                                       .allocator = &allocator_}));
    return absl::OkStatus();
  }

  absl::Status Run(const OnnxFile& file, const TensorsByName& inputs) {
    ASSIGN_OR_RETURN(const WeightView view, WeightView::OfNew(*weights_));
    for (const WeightEntry& entry : view.layout().entries()) {
      // The graph may hold it in another type than the file.
      ASSIGN_OR_RETURN(const HostTensor stored,
                       ReadTensor(*file.stored(entry.name), file.external()));
      WriteFromDoubles(entry.dtype, stored.numbers, 1,
                       view.bytes_of(entry).data());
    }
    RETURN_IF_ERROR(view.Commit());
    RETURN_IF_ERROR(executor_->Load());
    // Seeds and counters of random nodes are inputs that no tensor names.
    for (const Value& value : executor_->program().graph().values()) {
      if (value.kind != ValueKind::kInput) continue;
      const absl::Span<std::byte> bytes = executor_->input(value.name);
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
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

}  // namespace

absl::StatusOr<TensorsByName> RunModelOnCpu(const OnnxFile& file,
                                            const ModelGraph& model,
                                            const TensorsByName& inputs,
                                            const CpuRunOptions& options) {
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
  CpuRun run(options.threads);
  RETURN_IF_ERROR(run.Compile(std::move(graph), options.compute));
  RETURN_IF_ERROR(run.Run(file, inputs));
  for (const ModelPort& port : model.outputs) {
    if (!outputs.contains(port.name)) outputs[port.name] = run.Output(port);
  }
  return outputs;
}

}  // namespace gpupool::engine::onnx_import
