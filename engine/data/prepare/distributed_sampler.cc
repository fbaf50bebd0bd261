#include "engine/data/prepare/distributed_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"

namespace gpupool::engine {

absl::StatusOr<DistributedSampler> DistributedSampler::Create(
    const DistributedSamplerOptions& options, std::vector<uint32_t> rows) {
  if (options.rank >= options.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " of ", options.ranks,
                     ": ranks are counted from 0"));
  }
  // Rounds the rows of a rank up or down, as the tail requires.
  const uint64_t up =
      options.tail == Tail::kRepeatFromStart ? options.ranks - 1 : 0;
  const uint64_t rank_rows = (rows.size() + up) / options.ranks;
  if (options.batch_size < 1 || rows.empty() ||
      options.batch_size > rank_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch_size ", options.batch_size, " for each of ", options.ranks,
        " ranks must be from 1 to the ", rank_rows, " rows that each has of ",
        rows.size(), "; lower batch_size or the number of devices"));
  }
  return DistributedSampler(options, std::move(rows), rank_rows);
}

DistributedSampler::DistributedSampler(const DistributedSamplerOptions& options,
                                       std::vector<uint32_t> rows,
                                       uint64_t rank_rows)
    : options_(options),
      rows_(std::move(rows)),
      rank_rows_(rank_rows),
      batches_per_epoch_(rank_rows / options.batch_size) {
  if (options.keep_last && rank_rows % options.batch_size > 0) {
    ++batches_per_epoch_;
  }
}

absl::Span<const uint32_t> DistributedSampler::Next() {
  const absl::Span<const uint32_t> rows = Peek();
  ++position_;
  return rows;
}

absl::Span<const uint32_t> DistributedSampler::Peek() {
  const uint64_t epoch = position_ / batches_per_epoch_;
  const uint64_t batch = position_ % batches_per_epoch_;
  if (epoch != ordered_epoch_) OrderRows(epoch);
  const uint64_t begin = batch * options_.batch_size;
  return absl::MakeConstSpan(order_).subspan(
      begin, std::min<uint64_t>(options_.batch_size, rank_rows_ - begin));
}

void DistributedSampler::OrderRows(uint64_t epoch) {
  if (!options_.shuffle && !order_.empty()) {
    ordered_epoch_ = epoch;
    return;
  }
  // The permutation does not depend on the rank, so one device and many see the
  // same order.
  std::vector<uint32_t> permutation;
  if (options_.shuffle) {
    permutation = PhiloxPermutation(
        options_.seed, PhiloxStreamId(PhiloxStream::kShuffle, epoch),
        rows_.size());
  }
  order_.resize(rank_rows_);
  for (uint64_t i = 0; i < rank_rows_; ++i) {
    // Interleaved as in PyTorch. The modulo repeats rows from the start when
    // the tail asks for more entries than there are.
    const uint64_t entry = i * options_.ranks + options_.rank;
    const uint64_t place = entry % rows_.size();
    order_[i] = rows_[options_.shuffle ? permutation[place] : place];
  }
  ordered_epoch_ = epoch;
}

}  // namespace gpupool::engine
