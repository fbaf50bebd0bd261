#include "engine/train/batch_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/job_limits.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

// Cuts the rows of steps into those of batches.
class BatchCutter {
 public:
  BatchCutter(DistributedSampler sampler, uint32_t batches_per_step)
      : sampler_(std::move(sampler)), batches_per_step_(batches_per_step) {}

  std::vector<uint32_t> Next() {
    const absl::Span<const uint32_t> step = sampler_.Peek();
    const size_t size = step.size() / batches_per_step_;
    const auto batch = step.subspan(batch_ * size, size);
    std::vector<uint32_t> rows(batch.begin(), batch.end());
    if (++batch_ == batches_per_step_) {
      sampler_.Next();
      batch_ = 0;
    }
    return rows;
  }

 private:
  DistributedSampler sampler_;
  const uint32_t batches_per_step_;
  uint32_t batch_ = 0;
};

// Returns the tensor's part of a batch's memory; empty when it has none.
template <typename Byte>
absl::Span<Byte> PartOf(const LandingLayout& layout, absl::string_view name,
                        absl::Span<Byte> memory) {
  for (const LandingLayout::Tensor& tensor : layout.tensors) {
    if (tensor.name == name) return memory.subspan(tensor.offset, tensor.bytes);
  }
  return {};
}

}  // namespace

absl::Status CheckLoader(const v1::DataSpec& data) {
  const v1::DataLoader& loader = data.loader();
  if (loader.workers() > kMaxLoaderWorkers) {
    return Refuse("data.loader.workers is ", loader.workers(), "; at most ",
                  kMaxLoaderWorkers, " threads are allowed");
  }
  if (loader.prefetch() > kMaxPrefetchedBatches) {
    return Refuse("data.loader.prefetch is ", loader.prefetch(), "; at most ",
                  kMaxPrefetchedBatches, " batches are allowed");
  }
  if (loader.prefetch() == 0 || loader.workers() > 0) return absl::OkStatus();
  return Refuse("data.loader.prefetch is ", loader.prefetch(),
                ", but there is no thread that makes batches ahead; set "
                "data.loader.workers to at least 1");
}

uint32_t PrefetchedBatches(const v1::DataSpec& data) {
  const v1::DataLoader& loader = data.loader();
  return loader.prefetch() > 0 ? loader.prefetch() : 2 * loader.workers();
}

absl::Status BatchSource::LoadAhead(const v1::JobSpec& spec,
                                    DistributedSampler sampler,
                                    uint64_t total_steps) {
  const uint32_t workers = spec.data().loader().workers();
  if (workers == 0) return absl::OkStatus();
  const uint32_t batches_per_step =
      std::max(spec.training().accumulate_batches(), 1u);
  const uint64_t step = sampler.position();
  const BatchLoaderOptions options = {
      .workers = workers,
      .prefetch = PrefetchedBatches(spec.data()),
      .batch_bytes = options_.layout.bytes,
      .first = step * batches_per_step,
      .end = total_steps * batches_per_step};
  const auto cutter =
      std::make_shared<BatchCutter>(std::move(sampler), batches_per_step);
  ASSIGN_OR_RETURN(
      loader_,
      BatchLoader::Start(
          options, {.rows = [cutter] { return cutter->Next(); },
                    .fill =
                        [this](uint64_t number, absl::Span<const uint32_t> rows,
                               absl::Span<std::byte> memory) {
                          return Gather(
                              number, rows, [&](absl::string_view name) {
                                return PartOf(options_.layout, name, memory);
                              });
                        }}));
  return absl::OkStatus();
}

absl::Status BatchSource::Fill(uint64_t number, absl::Span<const uint32_t> rows,
                               InputBytes input) {
  if (loader_ == nullptr) return Gather(number, rows, input);
  return loader_->Take(number, [&](absl::Span<const std::byte> memory) {
    for (const LandingLayout::Tensor& tensor : options_.layout.tensors) {
      const absl::Span<std::byte> to = input(tensor.name);
      if (to.empty()) continue;
      // The inputs of a shorter batch take the first rows, which are its own.
      GPUPOOL_CHECK(to.size() <= tensor.bytes);
      std::memcpy(to.data(), memory.data() + tensor.offset, to.size());
    }
  });
}

absl::Status BatchSource::Gather(uint64_t number,
                                 absl::Span<const uint32_t> rows,
                                 InputBytes input) const {
  const TrainedEpoch epoch = {options_.seed,
                              number / options_.batches_per_epoch};
  std::optional<BatchMix> mix;
  if (options_.mix.has_value()) {
    mix = DrawMix(*options_.mix, number, rows.size());
  }
  return FillInputs({options_.table, options_.fed, rows, epoch,
                     mix.has_value() ? &*mix : nullptr},
                    options_.graph, input);
}

}  // namespace gpupool::engine
