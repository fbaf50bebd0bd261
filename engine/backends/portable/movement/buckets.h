// Positions sorted by where their indices point to. Host only; queues work.
#pragma once

#include <cstdint>

#include "engine/backends/portable/launch/launch.h"
#include "engine/backends/portable/movement/bucket_functors.h"

namespace gpupool::engine::portable {

// A stable counting sort of `tuples` tuples into `buckets` buckets. Plain data.
class BucketPlan {
 public:
  // False: more tuples or buckets than 31 bits count.
  static bool Fits(int64_t tuples, int64_t buckets);

  BucketPlan(int64_t tuples, int64_t buckets);

  // What Launch needs behind `workspace`, aligned to 16 bytes.
  uint64_t workspace_bytes() const { return bytes_; }
  // The result lies in the workspace. Errors in the indices are reported, and
  // tuples with such indices are in no bucket.
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
