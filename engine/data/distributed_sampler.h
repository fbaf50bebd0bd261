// Which rows one rank of a job trains on: PyTorch's DistributedSampler
// (torch/utils/data/distributed.py) on our own shuffle. A job on one device has
// one rank.
//
// An epoch's permutation, fixed by (seed, epoch), is cut to a whole number of
// rows for each rank or continued from its start; rank r of n takes the
// entries r, r + n, r + 2n, ... and cuts them into whole batches. So in every
// step the ranks together see the rows that one rank alone would, whose batch
// is n times as large; with Tail::kDrop the epochs have the same steps
// too.
//
// The batch of a step is a pure function of the options, the rows and the
// step, so the position to save is the number of batches taken, which is the
// same on every rank. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// What happens to rows that do not divide by the number of ranks. Rows that
// fill no whole batch after that wait for the next epoch in both cases.
enum class Tail : uint8_t {
  kDrop,             // they wait for the next epoch (drop_last=True)
  kRepeatFromStart,  // the epoch goes on with its first rows
};

struct DistributedSamplerOptions {
  uint64_t seed = 0;
  uint32_t batch_size = 1;  // of one rank
  uint32_t rank = 0;
  uint32_t ranks = 1;
  Tail tail = Tail::kDrop;
};

class DistributedSampler {
 public:
  // INVALID_ARGUMENT when the batch is empty, the rank is not one of the
  // ranks, or the rows are too few for one batch.
  static absl::StatusOr<DistributedSampler> Create(
      const DistributedSamplerOptions& options, std::vector<uint32_t> rows);

  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  // Batches taken since the beginning.
  uint64_t position() const { return position_; }
  // As if `position` batches had been taken.
  void Seek(uint64_t position) { position_ = position; }

  // This rank's rows of the next batch. The view holds until the next call of
  // either: the first takes the batch, the second does not.
  absl::Span<const uint32_t> Next();
  absl::Span<const uint32_t> Peek();

 private:
  DistributedSampler(const DistributedSamplerOptions& options,
                     std::vector<uint32_t> rows, uint64_t rank_rows);
  void Shuffle(uint64_t epoch);

  DistributedSamplerOptions options_;
  std::vector<uint32_t> rows_;
  uint64_t rank_rows_;  // of an epoch, before it is cut into batches
  uint64_t batches_per_epoch_;
  uint64_t position_ = 0;
  uint64_t shuffled_epoch_ = ~uint64_t{0};
  std::vector<uint32_t> order_;  // of shuffled_epoch_, this rank's
};

}  // namespace gpupool::engine
