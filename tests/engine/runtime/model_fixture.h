// A model's training program with its memory on a CPU device, for tests.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/check.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/model/model_programs.h"
#include "engine/passes/pipeline.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {

// Returns the graph. Aborts on errors, so the spec must be valid.
inline Graph TrainingGraph(const v1::ModelSpec& model, int batch) {
  v1::TrainingSpec training = testing::TrainingFromText(
      "cross_entropy {} adam { learning_rate: 0.01 }");
  training.set_batch_size(static_cast<uint32_t>(batch));
  Graph graph = BuildTrainingGraph(model, {}, training)->graph;
  GPUPOOL_CHECK(RunPasses(graph, {}, nullptr).ok());
  return graph;
}

inline Graph InferenceGraph(const v1::ModelSpec& model, int batch) {
  Graph graph = BuildInferenceGraph(model, false, batch)->graph;
  GPUPOOL_CHECK(RunPasses(graph, {}, nullptr).ok());
  return graph;
}

// Everything that one program needs to run. Members are in the order of their
// lifetimes.
class LoadedProgram {
 public:
  explicit LoadedProgram(Graph graph, int threads = 1)
      : backend_(threads), allocator_("cpu:0", uint64_t{1} << 32, &source_) {
    Program program = *Program::Compile(graph, &backend_);
    planned_ =
        ReportBytes(WeightLayout::Create({&graph})->bytes(), {program.bytes()});
    weights_ = std::make_unique<WeightStore>(*WeightStore::Create(
        *WeightLayout::Create({&graph}), "job 1", &allocator_));
    arena_ = *allocator_.Allocate(program.bytes().arena, {"job 1", "arena"});
    executor_ = *Executor::Create(std::move(program),
                                  {.weights = *weights_,
                                   .arena = {arena_.data(), arena_.bytes()},
                                   .holder = "job 1",
                                   .allocator = &allocator_});
    FillRandomly(graph);
  }

  // Writes all inputs. Labels are the row modulo 3.
  void SetInputs(int64_t step) {
    for (const Value& value : executor_->program().graph().values()) {
      if (value.kind != ValueKind::kInput) continue;
      std::byte* data = executor_->input(value.name).data();
      for (int64_t i = 0; i < value.shape.elements(); ++i) {
        if (value.dtype == DType::kFloat32) {
          reinterpret_cast<float*>(data)[i] =
              static_cast<float>((i * 37 + i / 7) % 17) / 17.0f;
        } else if (value.dtype == DType::kFloat64) {
          reinterpret_cast<double*>(data)[i] = 0.01;
        } else {
          reinterpret_cast<int64_t*>(data)[i] =
              value.name == "step" ? step : i % 3;
        }
      }
    }
  }
  float Output(const std::string& name) const {
    float number;
    std::memcpy(&number, executor_->output(name).data(), sizeof(number));
    return number;
  }

  Executor& executor() { return *executor_; }
  CachingAllocator& allocator() { return allocator_; }
  WeightStore& weights() { return *weights_; }
  const PlannedBytes& planned() const { return planned_; }

 private:
  void FillRandomly(const Graph& graph) {
    const auto numbers = testing::RandomPersistents(graph, 11);
    const WeightView view = *WeightView::OfNew(*weights_);
    for (const WeightEntry& entry : view.layout().entries()) {
      float* data = reinterpret_cast<float*>(view.bytes_of(entry).data());
      const bool zero = entry.in_optimizer_block();
      for (const double number : numbers.at(entry.name)) {
        *data++ = zero ? 0.0f : static_cast<float>(number) * 0.3f;
      }
    }
    GPUPOOL_CHECK(view.Commit().ok());
  }

  CpuBackend backend_;
  HostPageSource source_;
  CachingAllocator allocator_;
  PlannedBytes planned_;
  std::unique_ptr<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace gpupool::engine
