// The assignment of gradients to flat buckets for data parallel training.
// Buckets follow the order in which gradients are produced, and the first one
// is small so that communication begins early. Pure planning.
//
// The sizes and the closing rule are PyTorch's (torch/csrc/distributed/c10d/
// reducer.hpp, kDefaultFirstBucketBytes and kDefaultBucketBytesCap): a bucket
// is closed as soon as it holds at least its size, so one large gradient may
// make it larger.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

struct BucketSizes {
  uint64_t first_bytes = uint64_t{1} << 20;
  uint64_t other_bytes = uint64_t{25} << 20;
};

// The place of one parameter's gradient.
struct BucketSlot {
  int bucket = 0;
  uint64_t offset = 0;  // elements before it in its bucket
  uint64_t elements = 0;
};

// A run of elements of the flat buffer, which holds all buckets in order.
struct Bucket {
  uint64_t begin = 0;
  uint64_t elements = 0;
  std::vector<int> parameters;  // in the order of their offsets
};

class GradientBuckets {
 public:
  // Plans the buckets. elements[i] is the count of float32 numbers of parameter
  // i, at least 1. `order` lists the parameters as their gradients are
  // produced. All ranks must plan from the same numbers. INVALID_ARGUMENT when
  // `order` is not a permutation, a parameter is empty, a size is 0 or the sum
  // overflows.
  static absl::StatusOr<GradientBuckets> Plan(
      absl::Span<const uint64_t> elements, absl::Span<const int> order,
      const BucketSizes& sizes = {});

  absl::Span<const Bucket> buckets() const { return buckets_; }
  // Returns the slots by parameter.
  absl::Span<const BucketSlot> slots() const { return slots_; }
  uint64_t elements() const { return elements_; }

 private:
  std::vector<Bucket> buckets_;
  std::vector<BucketSlot> slots_;
  uint64_t elements_ = 0;
};

}  // namespace gpupool::engine
