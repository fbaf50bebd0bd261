// The rows that one rank of a job trains on, as in PyTorch's DistributedSampler
// (torch/utils/data/distributed.py) but with our own shuffle. A job on one
// device has one rank.
//
// An epoch's permutation is fixed by (seed, epoch). Without shuffling it is the
// order of the rows, in every epoch. It is cut to a whole number
// of rows for each rank, or continued from its start. Rank r of n takes the
// entries r, r + n, r + 2n, ... and cuts them into whole batches, and on
// request into a shorter last one. In every step the ranks together therefore
// see the rows of a single rank whose batch is n times as large. With
// Tail::kDrop the epochs also have the same number of steps.
//
// The batch of a step is a pure function of the options, the rows and the step.
// The position to save is therefore the number of batches taken, which is the
// same on every rank. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// The treatment of rows that do not divide evenly among the ranks. For rows
// that then fill no whole batch see DistributedSamplerOptions::keep_last.
enum class Tail : uint8_t {
  kDrop,             // they wait for the next epoch (drop_last=True)
  kRepeatFromStart,  // the epoch continues with its first rows
};

struct DistributedSamplerOptions {
  uint64_t seed = 0;
  uint32_t batch_size = 1;  // rows for one rank
  uint32_t rank = 0;
  uint32_t ranks = 1;
  Tail tail = Tail::kDrop;
  bool shuffle = true;  // else every epoch has the rows in their order
  // Whether a rank's rows that fill no whole batch are a shorter last batch of
  // the epoch. Else they wait for the next epoch.
  bool keep_last = false;
};

class DistributedSampler {
 public:
  // Makes a sampler. INVALID_ARGUMENT when the batch is empty, the rank is not
  // below `ranks`, or the rows are too few for one batch.
  static absl::StatusOr<DistributedSampler> Create(
      const DistributedSamplerOptions& options, std::vector<uint32_t> rows);

  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  // Returns the number of batches taken since the beginning.
  uint64_t position() const { return position_; }
  // Sets the position to that after `position` batches.
  void Seek(uint64_t position) { position_ = position; }

  // Return this rank's rows of the next batch. Next takes the batch, Peek does
  // not. The view is valid until the next call of either.
  absl::Span<const uint32_t> Next();
  absl::Span<const uint32_t> Peek();

 private:
  DistributedSampler(const DistributedSamplerOptions& options,
                     std::vector<uint32_t> rows, uint64_t rank_rows);
  // Sets the order of this rank's rows to that of the epoch.
  void OrderRows(uint64_t epoch);

  DistributedSamplerOptions options_;
  std::vector<uint32_t> rows_;
  uint64_t rank_rows_;  // in an epoch, before the cut into batches
  uint64_t batches_per_epoch_;
  uint64_t position_ = 0;
  uint64_t ordered_epoch_ = ~uint64_t{0};
  std::vector<uint32_t> order_;  // this rank's rows in ordered_epoch_
};

}  // namespace gpupool::engine
