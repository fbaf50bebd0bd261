#include "tests/engine/backends/cpu/graph_runner.h"

#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/executor.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

// Position in memory of the row-major element i.
size_t PositionOf(const Value& value, size_t i) {
  if (value.layout == Layout::kRowMajor) return i;
  const auto c = static_cast<size_t>(value.shape[1]);
  const auto area = static_cast<size_t>(value.shape[2] * value.shape[3]);
  const size_t n = i / (c * area), channel = i / area % c, cell = i % area;
  return (n * area + cell) * c + channel;
}

template <typename T>
void WriteAs(const Value& value, const Numbers& numbers, std::byte* data) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    reinterpret_cast<T*>(data)[PositionOf(value, i)] =
        static_cast<T>(numbers[i]);
  }
}

template <typename T>
Numbers ReadAs(const Value& value, const std::byte* data) {
  Numbers numbers(static_cast<size_t>(value.shape.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>(
        reinterpret_cast<const T*>(data)[PositionOf(value, i)]);
  }
  return numbers;
}

void Write(const Value& value, const Numbers& numbers, std::byte* data) {
  GPUPOOL_CHECK(numbers.size() == static_cast<size_t>(value.shape.elements()));
  switch (value.dtype) {
    case DType::kFloat32:
      return WriteAs<float>(value, numbers, data);
    case DType::kFloat64:
      return WriteAs<double>(value, numbers, data);
    case DType::kInt32:
      return WriteAs<int32_t>(value, numbers, data);
    case DType::kInt64:
      return WriteAs<int64_t>(value, numbers, data);
    default:
      GPUPOOL_CHECK(false && "no such input in these tests");
  }
}

Numbers Read(const Value& value, const std::byte* data) {
  switch (value.dtype) {
    case DType::kFloat32:
      return ReadAs<float>(value, data);
    case DType::kInt32:
      return ReadAs<int32_t>(value, data);
    case DType::kInt64:
      return ReadAs<int64_t>(value, data);
    case DType::kUint8:
      return ReadAs<uint8_t>(value, data);
    default:
      GPUPOOL_CHECK(false && "no such output in these tests");
  }
  return {};
}

}  // namespace

absl::StatusOr<NamedNumbers> RunOnCpu(const Graph& graph,
                                      const NamedNumbers& inputs,
                                      NamedNumbers& persistents, int threads) {
  CpuBackend backend(threads);
  ASSIGN_OR_RETURN(Program program, Program::Compile(graph, &backend));
  ASSIGN_OR_RETURN(WeightLayout layout, WeightLayout::Create({&graph}));
  HostSegmentSource source;
  CachingAllocator allocator("cpu:0", uint64_t{1} << 32, &source);
  ASSIGN_OR_RETURN(WeightStore weights,
                   WeightStore::Create(layout, "test", &allocator));
  ASSIGN_OR_RETURN(Allocation arena, allocator.Allocate(program.bytes().arena,
                                                        {"test", "arena"}));
  ASSIGN_OR_RETURN(
      auto executor,
      Executor::Create(std::move(program), weights,
                       {arena.data(), arena.bytes()}, "test", &allocator));
  for (const WeightEntry& entry : weights.layout().entries()) {
    Write(*graph.FindValue(entry.name), persistents.at(entry.name),
          weights.bytes_of(entry).data());
  }
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
  for (const WeightEntry& entry : weights.layout().entries()) {
    persistents[entry.name] =
        Read(*graph.FindValue(entry.name), weights.bytes_of(entry).data());
  }
  return outputs;
}

}  // namespace gpupool::engine
