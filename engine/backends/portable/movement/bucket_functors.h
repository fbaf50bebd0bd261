// Functors that sort positions by where their indices point to. (Host and
// device; plain C++.)
//
// Sums over equal indices need an order that does not depend on the machine: a
// stable counting sort (Knuth, The Art of Computer Programming, volume 3,
// section 5.2, algorithm D) puts positions with the same target next to each
// other, in their own order, without floating point atomics. buckets.h
// launches the parts.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/launch/errors.h"

namespace gpupool::engine::portable {

// Tuples of indices into the leading axes of a value, or of one axis.
struct TupleIndices {
  const void* indices = nullptr;
  bool wide = false;   // int64, not int32
  int32_t length = 1;  // of a tuple
  int64_t cells[kMaxLoops];
  ErrorPlace error;

  // The row-major position that tuple t points to; -1, reported, outside.
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

// Buckets of tuples by what they point to: bucket b holds order[starts[b] ..
// starts[b + 1]), in rising order.
struct Buckets {
  const int32_t* starts = nullptr;
  const int32_t* order = nullptr;
};

// The parts of the counting sort. The tuples are cut into parts; table
// [buckets, parts] counts those of each part in each bucket.
struct CountTuplesFunctor {
  TupleIndices tuples;
  int64_t count = 0;  // tuples
  int64_t tuples_per_part = 1;
  int64_t parts = 1;
  int32_t* table = nullptr;

  // Of part i.
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

// Counts become positions within bucket i, which gets its count.
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

// starts[b] is the sum of the counts before b, starts[buckets] of all. One
// row; each lane takes a run of buckets. `sums` has one number per lane.
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

struct PlaceTuplesFunctor {
  TupleIndices tuples;
  int64_t count = 0;
  int64_t tuples_per_part = 1;
  int64_t parts = 1;
  int32_t* table = nullptr;
  const int32_t* starts = nullptr;
  int32_t* order = nullptr;

  // Of part i.
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
