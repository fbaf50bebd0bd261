#include "engine/data/sampler.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/base/philox.h"

namespace gpupool::engine {

Sampler::Sampler(uint64_t seed, std::vector<uint32_t> rows, uint32_t batch_size)
    : seed_(seed), rows_(std::move(rows)), batch_size_(batch_size) {
  GPUPOOL_CHECK(batch_size_ >= 1 && batch_size_ <= rows_.size());
  batches_per_epoch_ = rows_.size() / batch_size_;
}

absl::Span<const uint32_t> Sampler::Next() {
  const uint64_t epoch = position_ / batches_per_epoch_;
  const uint64_t batch = position_ % batches_per_epoch_;
  if (epoch != shuffled_epoch_) Shuffle(epoch);
  ++position_;
  return absl::MakeConstSpan(order_).subspan(batch * batch_size_, batch_size_);
}

void Sampler::Shuffle(uint64_t epoch) {
  order_ = PhiloxPermutation(
      seed_, PhiloxStreamId(PhiloxStream::kShuffle, epoch), rows_.size());
  for (uint32_t& entry : order_) entry = rows_[entry];
  shuffled_epoch_ = epoch;
}

}  // namespace gpupool::engine
