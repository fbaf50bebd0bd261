#include "tests/engine/backends/cpu/graph_runner.h"

#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

// Calls visit(first element, elements between cells, first number, numbers) for
// each run of cells: one per image and channel of channels-last values, one for
// other values.
template <typename Visitor>
void ForEachRun(const Value& value, const Visitor& visit) {
  const auto elements = static_cast<size_t>(value.shape.elements());
  if (value.layout == Layout::kRowMajor) return visit(0, 1, 0, elements);
  const auto channels = static_cast<size_t>(value.shape[1]);
  const auto images = static_cast<size_t>(value.shape[0]);
  const size_t cells = elements / channels / images;
  for (size_t i = 0; i < channels * images; ++i) {
    const size_t first = i / channels * channels * cells + i % channels;
    visit(first, static_cast<int64_t>(channels), i * cells, cells);
  }
}

void Write(const Value& value, const Numbers& numbers, std::byte* data) {
  GPUPOOL_CHECK(numbers.size() == static_cast<size_t>(value.shape.elements()));
  ForEachRun(value, [&](size_t first, int64_t stride, size_t at, size_t count) {
    WriteFromDoubles(value.dtype,
                     absl::MakeConstSpan(numbers).subspan(at, count), stride,
                     data + first * SizeOf(value.dtype));
  });
}

Numbers Read(const Value& value, const std::byte* data) {
  Numbers numbers(static_cast<size_t>(value.shape.elements()));
  ForEachRun(value, [&](size_t first, int64_t stride, size_t at, size_t count) {
    ReadAsDoubles(value.dtype, data + first * SizeOf(value.dtype), stride,
                  absl::MakeSpan(numbers).subspan(at, count));
  });
  return numbers;
}

}  // namespace

absl::StatusOr<NamedNumbers> RunOnCpu(const Graph& graph,
                                      const NamedNumbers& inputs,
                                      NamedNumbers& persistents, int threads) {
  CpuBackend backend(threads);
  ASSIGN_OR_RETURN(Program program, Program::Compile(graph, &backend));
  ASSIGN_OR_RETURN(WeightLayout layout, WeightLayout::Create({&graph}));
  HostPageSource source;
  CachingAllocator allocator("cpu:0", uint64_t{1} << 32, &source);
  ASSIGN_OR_RETURN(WeightStore weights,
                   WeightStore::Create(layout, "test", &allocator));
  ASSIGN_OR_RETURN(Allocation arena, allocator.Allocate(program.bytes().arena,
                                                        {"test", "arena"}));
  ASSIGN_OR_RETURN(
      auto executor,
      Executor::Create(std::move(program), weights,
                       {arena.data(), arena.bytes()}, "test", &allocator));
  ASSIGN_OR_RETURN(const WeightView initial, WeightView::OfNew(weights));
  for (const WeightEntry& entry : initial.layout().entries()) {
    Write(*graph.FindValue(entry.name), persistents.at(entry.name),
          initial.bytes_of(entry).data());
  }
  RETURN_IF_ERROR(initial.Commit());
  RETURN_IF_ERROR(executor->Load());
  for (const auto& [name, numbers] : inputs) {
    Write(*graph.FindValue(name), numbers, executor->input(name).data());
  }
  RETURN_IF_ERROR(executor->Run());
  NamedNumbers outputs;
  for (const GraphOutput& output : graph.outputs()) {
    outputs[output.name] =
        Read(graph.value(output.value), executor->output(output.name).data());
  }
  ASSIGN_OR_RETURN(const WeightView final, WeightView::Read(weights));
  for (const WeightEntry& entry : final.layout().entries()) {
    persistents[entry.name] =
        Read(*graph.FindValue(entry.name), final.bytes_of(entry).data());
  }
  return outputs;
}

}  // namespace gpupool::engine
