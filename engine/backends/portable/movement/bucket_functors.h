// Functors that sort positions by the targets of their indices. (Host and
// device; plain C++.)
//
// Sums over equal indices need an order that does not depend on the machine. A
// stable counting sort (Knuth, The Art of Computer Programming, volume 3,
// section 5.2, algorithm D) puts positions with the same target next to each
// other in rising order. So no floating point atomics are needed. buckets.h
// launches the parts.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/launch/errors.h"

namespace gpupool::engine::portable {

// Tuples of indices into the leading axes of a value, or into one axis.
struct TupleIndices {
  const void* indices = nullptr;
  bool wide = false;   // int64, not int32
  int32_t length = 1;  // of a tuple
  int64_t cells[kMaxLoops];
  ErrorPlace error;

  // Returns the row-major position that tuple t points to. Reports an error and
  // returns -1 when it lies outside.
  GPUPOOL_HOST_DEVICE int64_t TargetOf(int64_t t) const {
    int64_t target = 0;
    for (int entry = 0; entry < length; ++entry) {
      const int64_t index = ResolveIndex(
          error, LoadIndex(wide, indices, t * length + entry), cells[entry]);
      if (index < 0) return -1;
      target = target * cells[entry] + index;
    }
    return target;
  }
};

// Tuples in buckets by their target. Bucket b holds order[starts[b] .. starts[b
// + 1]), in rising order.
struct Buckets {
  const int32_t* starts = nullptr;
  const int32_t* order = nullptr;
};

// Step 1 of the sort: counts the tuples of a part by bucket, into table
// [buckets, parts].
struct CountTuplesFunctor {
  TupleIndices tuples;
  int64_t count = 0;  // tuples
  int64_t tuples_per_part = 1;
  int64_t parts = 1;
  int32_t* table = nullptr;

  // Counts part i.
  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t begin = i * tuples_per_part;
    const int64_t most = begin + tuples_per_part;
    const int64_t end = most < count ? most : count;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t bucket = tuples.TargetOf(t);
      if (bucket >= 0) ++table[bucket * parts + i];
    }
  }
};

// Step 2: turns the counts of bucket i into positions within the bucket, and
// stores their sum.
struct CountPartsFunctor {
  int64_t parts = 1;
  int32_t* table = nullptr;
  int32_t* counts = nullptr;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int32_t total = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const int32_t here = table[i * parts + part];
      table[i * parts + part] = total;
      total += here;
    }
    counts[i] = total;
  }
};

// Step 3: computes the first position of each bucket, starts[b] = counts[0] +
// ... + counts[b - 1], and starts[buckets], the number of all. Has one row,
// whose lanes each take a run of buckets. `sums` has one number per lane.
struct StartsFunctor {
  const int32_t* counts = nullptr;
  int32_t* starts = nullptr;
  int32_t* sums = nullptr;  // kMostLanes
  int64_t buckets = 0;

  static constexpr int kMostLanes = 1024;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t) const {
    const int64_t run = (buckets + group.lanes() - 1) / group.lanes();
    const int64_t begin = group.lane() * run;
    const int64_t end = begin + run < buckets ? begin + run : buckets;
    int32_t sum = 0;
    for (int64_t b = begin; b < end; ++b) sum += counts[b];
    sums[group.lane()] = sum;
    group.Meet();
    int32_t total = 0;
    for (int lane = 0; lane < group.lane(); ++lane) total += sums[lane];
    for (int64_t b = begin; b < end; ++b) {
      starts[b] = total;
      total += counts[b];
    }
    if (group.lane() == group.lanes() - 1) starts[buckets] = total;
  }
};

// Step 4: writes the tuples of a part to their places.
struct PlaceTuplesFunctor {
  TupleIndices tuples;
  int64_t count = 0;
  int64_t tuples_per_part = 1;
  int64_t parts = 1;
  int32_t* table = nullptr;
  const int32_t* starts = nullptr;
  int32_t* order = nullptr;

  // Places part i.
  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t begin = i * tuples_per_part;
    const int64_t most = begin + tuples_per_part;
    const int64_t end = most < count ? most : count;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t bucket = tuples.TargetOf(t);
      if (bucket < 0) continue;
      const int32_t place = table[bucket * parts + i]++;
      order[starts[bucket] + place] = static_cast<int32_t>(t);
    }
  }
};

}  // namespace gpupool::engine::portable
