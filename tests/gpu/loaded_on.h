// A program with its memory on any device, for tests that run the same program
// on two devices.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "engine/base/check.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine::testing {

// Members are in the order of their lifetimes. Aborts if the device has too
// little memory.
class LoadedOn {
 public:
  LoadedOn(DeviceBackend* backend, CachingAllocator* allocator,
           const Graph& graph, const KernelOptions& options = {}) {
    auto program = Program::Compile(graph, backend, options);
    GPUPOOL_CHECK(program.ok());
    weights_ = std::make_unique<WeightStore>(
        *WeightStore::Create(*WeightLayout::Create({&graph}), "test", allocator,
                             backend->transfer()));
    arena_ = *allocator->Allocate(program->bytes().arena, {"test", "arena"});
    auto executor =
        Executor::Create(*std::move(program), *weights_,
                         {arena_.data(), arena_.bytes()}, "test", allocator);
    GPUPOOL_CHECK(executor.ok());
    executor_ = *std::move(executor);
    FillWeights(graph);
    GPUPOOL_CHECK(executor_->Load().ok());
  }

  // Writes all inputs. Labels are the row modulo 3, features depend on `step`.
  void SetInputs(int64_t step) {
    for (const Value& value : executor_->program().graph().values()) {
      if (value.kind != ValueKind::kInput) continue;
      std::byte* data = executor_->input(value.name).data();
      for (int64_t i = 0; i < value.shape.elements(); ++i) {
        if (value.dtype == DType::kFloat32) {
          reinterpret_cast<float*>(data)[i] =
              static_cast<float>((i * 37 + i / 7 + step * 5) % 17) / 17.0F;
        } else if (value.dtype == DType::kFloat64) {
          reinterpret_cast<double*>(data)[i] = 0.01;
        } else {
          reinterpret_cast<int64_t*>(data)[i] =
              value.name == "step" ? step : i % 3;
        }
      }
    }
  }
  // Returns the bytes of all outputs after a run.
  std::string Outputs() const {
    std::string bytes;
    const Graph& graph = executor_->program().graph();
    for (const GraphOutput& output : graph.outputs()) {
      const auto data = executor_->output(output.name);
      bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    return bytes;
  }
  float Output(const std::string& name) const {
    float number = 0;
    std::memcpy(&number, executor_->output(name).data(), sizeof(number));
    return number;
  }
  Executor& executor() { return *executor_; }

 private:
  void FillWeights(const Graph& graph) {
    const auto numbers = RandomPersistents(graph, 11);
    const WeightView view = *WeightView::OfNew(*weights_);
    for (const WeightEntry& entry : view.layout().entries()) {
      auto* data = reinterpret_cast<float*>(view.bytes_of(entry).data());
      const bool zero = entry.in_optimizer_block();
      for (const double number : numbers.at(entry.name)) {
        *data++ = zero ? 0.0F : static_cast<float>(number) * 0.3F;
      }
    }
    GPUPOOL_CHECK(view.Commit().ok());
  }

  std::unique_ptr<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace gpupool::engine::testing
