// Which rows make up each training batch: every epoch visits the training
// rows once in an order fixed by (seed, epoch), cut into whole batches; the
// rows left over wait for the next epoch's shuffle.
//
// The batch of a step is a pure function of (seed, rows, batch size, step),
// so the position to save is the number of batches taken. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine {

class Sampler {
 public:
  // 1 <= batch_size <= rows.size().
  Sampler(uint64_t seed, std::vector<uint32_t> rows, uint32_t batch_size);

  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  // Batches taken since the beginning.
  uint64_t position() const { return position_; }
  // As if `position` batches had been taken.
  void Seek(uint64_t position) { position_ = position; }

  // The rows of the next batch. The view holds until the next call.
  absl::Span<const uint32_t> Next();

 private:
  void Shuffle(uint64_t epoch);

  uint64_t seed_;
  std::vector<uint32_t> rows_;
  uint32_t batch_size_;
  uint64_t batches_per_epoch_;
  uint64_t position_ = 0;
  uint64_t shuffled_epoch_ = ~uint64_t{0};
  std::vector<uint32_t> order_;  // of shuffled_epoch_
};

}  // namespace gpupool::engine
