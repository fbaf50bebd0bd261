// A small regression that is trained data parallel with the engine's own
// programs, for tests: loss and gradients in one program, the optimizer in
// another, the all-reduce between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/collective/collective.h"
#include "engine/collective/gradient_reducer.h"
#include "engine/data/distributed_sampler.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/runtime/executor.h"

namespace gpupool::engine {

class Regression {
 public:
  static constexpr uint32_t kRows = 103;
  static constexpr int64_t kFeatures = 4;

  // One rank's share of steps of `global_batch` rows. Weights, rows and order
  // come from the seed alone. The collective must outlive this.
  static absl::StatusOr<std::unique_ptr<Regression>> Create(
      uint64_t seed, uint32_t global_batch, Collective* collective);

  // One step on all ranks; returns the loss of the global batch.
  absl::StatusOr<double> Step();

  // How many all-reduces a step has.
  size_t buckets() const { return buckets_; }

 private:
  explicit Regression(DistributedSampler sampler)
      : sampler_(std::move(sampler)) {}
  absl::Status Build(uint64_t seed, uint32_t batch, Collective* collective);
  absl::Status FillWeights(uint64_t seed);
  const WeightEntry& layout_of(const std::string& name) const;
  void GiveRows(absl::Span<const uint32_t> rows);

  DistributedSampler sampler_;
  Collective* collective_ = nullptr;
  std::vector<float> features_;
  std::vector<float> targets_;
  CpuBackend backend_{1};
  HostPageSource source_;
  CachingAllocator allocator_{"cpu:0", uint64_t{1} << 30, &source_};
  std::vector<std::string> parameters_;
  std::unique_ptr<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> gradient_;
  std::unique_ptr<Executor> optimizer_;
  std::unique_ptr<GradientReducer> reducer_;
  size_t buckets_ = 0;
  int64_t steps_ = 0;
};

}  // namespace gpupool::engine
