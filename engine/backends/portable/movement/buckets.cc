#include "engine/backends/portable/movement/buckets.h"

#include <algorithm>

#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/movement/copy_plan.h"
#include "engine/base/align.h"

namespace gpupool::engine::portable {
namespace {

// One thread walks through a part. Many parts need a large table.
constexpr int64_t kTuplesPerPart = 64;
constexpr int64_t kMostParts = 1024;
constexpr int64_t kTableEntries = int64_t{8} << 20;

}  // namespace

bool BucketPlan::Fits(int64_t tuples, int64_t buckets) {
  return tuples < INT32_MAX && buckets < INT32_MAX;
}

BucketPlan::BucketPlan(int64_t tuples, int64_t buckets)
    : tuples_(tuples), buckets_(buckets) {
  const int64_t wanted =
      std::min({CeilDivide(tuples, kTuplesPerPart), kMostParts,
                kTableEntries / std::max<int64_t>(buckets, 1)});
  parts_ = std::max<int64_t>(wanted, 1);
  tuples_per_part_ = CeilDivide(tuples, parts_);
  const auto take = [this](int64_t numbers) {
    const uint64_t at = bytes_;
    bytes_ += AlignUp(static_cast<uint64_t>(numbers) * sizeof(int32_t));
    return at;
  };
  take(buckets_ * parts_);  // the table comes first, at offset 0
  counts_at_ = take(buckets_);
  starts_at_ = take(buckets_ + 1);
  sums_at_ = take(StartsFunctor::kMostLanes);
  order_at_ = take(tuples_);
}

Buckets BucketPlan::Launch(LaunchStream stream, const TupleIndices& tuples,
                           std::byte* workspace) const {
  auto* table = reinterpret_cast<int32_t*>(workspace);
  auto* counts = reinterpret_cast<int32_t*>(workspace + counts_at_);
  auto* starts = reinterpret_cast<int32_t*>(workspace + starts_at_);
  auto* sums = reinterpret_cast<int32_t*>(workspace + sums_at_);
  auto* order = reinterpret_cast<int32_t*>(workspace + order_at_);
  // The count only adds, so the table must be zero.
  const std::byte zeros[sizeof(int32_t)] = {};
  LaunchFill(stream, workspace, buckets_ * parts_, zeros);
  // Each launch needs the result of the one before. The stream keeps their
  // order.
  LaunchFor(
      stream, parts_,
      CountTuplesFunctor{tuples, tuples_, tuples_per_part_, parts_, table});
  LaunchFor(stream, buckets_, CountPartsFunctor{parts_, table, counts});
  LaunchRows(stream, 1, StartsFunctor{counts, starts, sums, buckets_});
  LaunchFor(stream, parts_,
            PlaceTuplesFunctor{tuples, tuples_, tuples_per_part_, parts_, table,
                               starts, order});
  return {starts, order};
}

}  // namespace gpupool::engine::portable
