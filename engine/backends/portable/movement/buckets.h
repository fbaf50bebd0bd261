// Sorts positions by the targets of their indices. Host only. Queues work.
#pragma once

#include <cstdint>

#include "engine/backends/portable/launch/launch.h"
#include "engine/backends/portable/movement/bucket_functors.h"

namespace gpupool::engine::portable {

// A stable counting sort of tuples into buckets. Plain data.
class BucketPlan {
 public:
  // Returns whether both counts are below 2^31 - 1.
  static bool Fits(int64_t tuples, int64_t buckets);

  BucketPlan(int64_t tuples, int64_t buckets);

  // Returns the bytes that Launch needs at `workspace`, which must be aligned
  // to 16 bytes.
  uint64_t workspace_bytes() const { return bytes_; }
  // Queues the sort. The result lies in the workspace. An index that is out of
  // range is reported, and its tuple is in no bucket.
  Buckets Launch(LaunchStream stream, const TupleIndices& tuples,
                 std::byte* workspace) const;

 private:
  int64_t tuples_;
  int64_t buckets_;
  int64_t tuples_per_part_;
  int64_t parts_;
  uint64_t counts_at_, starts_at_, sums_at_, order_at_;
  uint64_t bytes_ = 0;
};

}  // namespace gpupool::engine::portable
