// Functors of gathers, scatters and top k. (Host and device; plain C++.)
//
// Sums over equal indices need an order that does not depend on the machine:
// a counting sort puts positions with the same target next to each other, in
// their own order, without floating point atomics (buckets.h).
#pragma once

#include <cstdint>

#include "engine/backends/portable/errors.h"
#include "engine/backends/portable/host_device.h"
#include "engine/backends/portable/movement_functors.h"
#include "engine/backends/portable/numbers.h"
#include "engine/backends/portable/walk.h"
#include "engine/graph/functions.h"

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

// y [batch, tuples, after] of x [batch, cells, after], where each batch has
// its own tuples or all share them.
template <typename Word>
struct GatherFunctor {
  const Word* x = nullptr;
  Word* y = nullptr;
  TupleIndices tuples;
  bool shared = true;
  int64_t cells = 1;
  Grid grid;  // batch, tuples, after

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[3];
    grid.Split(i, at);
    const int64_t tuple = shared ? at[1] : at[0] * grid.sizes[1] + at[1];
    const int64_t cell = tuples.TargetOf(tuple);
    if (cell < 0) {
      y[i] = Word{};
      return;
    }
    y[i] = x[(at[0] * cells + cell) * grid.sizes[2] + at[2]];
  }
};

// y of the indices' shape; x may be longer along every axis.
struct GatherElementsFunctor {
  const void* x = nullptr;
  const void* indices = nullptr;
  void* y = nullptr;
  int32_t element_bytes = 4;
  bool wide = false;
  int32_t axis = 0;
  int64_t cells = 1;  // of x along the axis
  int64_t strides[kMaxLoops];
  Grid grid;  // of y
  ErrorPlace error;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[kMaxLoops];
    grid.Split(i, at);
    at[axis] = ResolveIndex(error, LoadIndex(wide, indices, i), cells);
    if (at[axis] < 0) at[axis] = 0;
    int64_t source = 0;
    for (int a = 0; a < grid.axes; ++a) source += at[a] * strides[a];
    CopyElement(element_bytes, x, source, y, i);
  }
};

GPUPOOL_HOST_DEVICE inline double CombineReal(ScatterReduction reduction,
                                              double old, double update) {
  switch (reduction) {
    case ScatterReduction::kNone:
      return update;
    case ScatterReduction::kAdd:
      return old + update;
    case ScatterReduction::kMultiply:
      return old * update;
    case ScatterReduction::kMinimum:
      if (old != old || update != update) return old + update;
      return old < update ? old : update;
    case ScatterReduction::kMaximum:
      if (old != old || update != update) return old + update;
      return old > update ? old : update;
  }
  return update;
}

GPUPOOL_HOST_DEVICE inline int64_t CombineWhole(ScatterReduction reduction,
                                                int64_t old, int64_t update) {
  const auto a = static_cast<uint64_t>(old);
  const auto b = static_cast<uint64_t>(update);
  switch (reduction) {
    case ScatterReduction::kNone:
      return update;
    case ScatterReduction::kAdd:
      return static_cast<int64_t>(a + b);
    case ScatterReduction::kMultiply:
      return static_cast<int64_t>(a * b);
    case ScatterReduction::kMinimum:
      return old < update ? old : update;
    case ScatterReduction::kMaximum:
      return old > update ? old : update;
  }
  return update;
}

GPUPOOL_HOST_DEVICE inline Number Combine(ScatterReduction reduction,
                                          DType type, Number old,
                                          Number update) {
  return IsFloatingType(type)
             ? Real(CombineReal(reduction, old.real, update.real))
             : Whole(CombineWhole(reduction, old.whole, update.whole));
}

// One lane of a scatter along an axis: updates of different lanes never meet.
// Call i is for position i in the other axes of the updates; y holds x.
struct ScatterElementsFunctor {
  const void* indices = nullptr;
  const void* updates = nullptr;
  void* y = nullptr;
  DType type = DType::kFloat32;
  ScatterReduction reduction = ScatterReduction::kNone;
  bool wide = false;
  int64_t length = 1;                   // of a lane of updates
  int64_t cells = 1;                    // of y along the axis
  int64_t update_step = 1, y_step = 1;  // along the axis
  Walk<2> walk;  // over the other axes; operands: updates, y
  ErrorPlace error;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[2];
    walk.Find(i, at);
    for (int64_t k = 0; k < length; ++k) {
      const int64_t from = at[0] + k * update_step;
      const int64_t cell =
          ResolveIndex(error, LoadIndex(wide, indices, from), cells);
      if (cell < 0) return;
      const int64_t to = at[1] + cell * y_step;
      const Number update = LoadNumber(type, updates, from);
      const Number old = reduction == ScatterReduction::kNone
                             ? update
                             : LoadNumber(type, y, to);
      StoreNumber(type, y, to, Combine(reduction, type, old, update));
    }
  }
};

// Buckets of tuples by what they point to: bucket b holds order[starts[b] ..
// starts[b + 1]), in rising order.
struct Buckets {
  const int32_t* starts = nullptr;
  const int32_t* order = nullptr;
};

// Scatter of rows, y [buckets, after]; y may be x.
struct ScatterRowsFunctor {
  const void* x = nullptr;
  const void* updates = nullptr;  // [tuples, after]
  void* y = nullptr;
  DType type = DType::kFloat32;
  ScatterReduction reduction = ScatterReduction::kNone;
  Buckets buckets;
  Grid grid;  // buckets, after

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[2];
    grid.Split(i, at);
    Number total = LoadNumber(type, x, i);
    const int32_t end = buckets.starts[at[0] + 1];
    for (int32_t k = buckets.starts[at[0]]; k < end; ++k) {
      const int64_t from = buckets.order[k] * grid.sizes[1] + at[1];
      total = Combine(reduction, type, total, LoadNumber(type, updates, from));
    }
    StoreNumber(type, y, i, total);
  }
};

// Gradient of a gather, dx [before, buckets, after] of dy [before, tuples,
// after]. T is a hot type or double.
template <typename T>
struct GatherGradFunctor {
  const T* dy = nullptr;
  T* dx = nullptr;
  int64_t tuples = 1;
  Buckets buckets;
  Grid grid;  // before, buckets, after

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[3];
    grid.Split(i, at);
    double sum = 0;
    const int32_t end = buckets.starts[at[1] + 1];
    for (int32_t k = buckets.starts[at[1]]; k < end; ++k) {
      const T x =
          dy[(at[0] * tuples + buckets.order[k]) * grid.sizes[2] + at[2]];
      if constexpr (sizeof(T) == sizeof(double)) {
        sum += x;
      } else {
        sum += ToFloat(x);
      }
    }
    if constexpr (sizeof(T) == sizeof(double)) {
      dx[i] = sum;
    } else {
      dx[i] = FromFloat<T>(static_cast<float>(sum));
    }
  }
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

// A number whose order among unsigned ones is that of the elements; NaN is
// above every number, as in PyTorch, and 0 equals -0.
GPUPOOL_HOST_DEVICE inline uint64_t OrderKey(DType type, const void* data,
                                             int64_t i) {
  const Number x = LoadNumber(type, data, i);
  constexpr uint64_t kTop = uint64_t{1} << 63;
  if (!IsFloatingType(type)) return static_cast<uint64_t>(x.whole) ^ kTop;
  if (x.real != x.real) return ~uint64_t{0};
  const double number = x.real == 0 ? 0.0 : x.real;
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return (bits & kTop) != 0 ? ~bits : bits | kTop;
}

// The first k elements of each row of x [before, cells, after] in order; among
// equals the first comes first. Each time the best after the one before is
// chosen.
struct TopKFunctor {
  const void* x = nullptr;
  void* values = nullptr;
  int64_t* positions = nullptr;
  DType type = DType::kFloat32;
  bool largest = true;
  int64_t k = 1;
  int64_t cells = 1;
  int64_t after = 1;

  GPUPOOL_HOST_DEVICE uint64_t KeyOf(int64_t at) const {
    const uint64_t key = OrderKey(type, x, at);
    return largest ? key : ~key;
  }

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t first = row / after * cells * after + row % after;
    const int64_t result = row / after * k * after + row % after;
    uint64_t last_key = 0;
    int64_t last_cell = -1;  // none yet
    for (int64_t rank = 0; rank < k; ++rank) {
      uint64_t best_key = 0;
      int64_t best_cell = cells;
      for (int64_t c = group.lane(); c < cells; c += group.lanes()) {
        const uint64_t key = KeyOf(first + c * after);
        const bool left = last_cell < 0 || key < last_key ||
                          (key == last_key && c > last_cell);
        if (left && (best_cell == cells || key > best_key)) {
          best_key = key;
          best_cell = c;
        }
      }
      // A key of 0 may be nobody's or somebody's; the cell tells.
      last_key = group.Max(best_key);
      const bool mine = best_cell < cells && best_key == last_key;
      last_cell = -group.Max(mine ? -best_cell : -cells);
      if (group.lane() == 0 && last_cell < cells) {
        const int64_t to = result + rank * after;
        StoreNumber(type, values, to,
                    LoadNumber(type, x, first + last_cell * after));
        positions[to] = last_cell;
      }
    }
  }
};

// The same for many of long rows: each element counts those that stand before
// it, which is its place.
struct RankFunctor {
  const void* x = nullptr;
  void* values = nullptr;
  int64_t* positions = nullptr;
  DType type = DType::kFloat32;
  bool largest = true;
  int64_t k = 1;
  Grid grid;  // before, cells, after

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[3];
    grid.Split(i, at);
    const int64_t cells = grid.sizes[1];
    const int64_t after = grid.sizes[2];
    const int64_t first = at[0] * cells * after + at[2];
    const uint64_t flip = largest ? 0 : ~uint64_t{0};
    const uint64_t own = OrderKey(type, x, i) ^ flip;
    int64_t rank = 0;
    for (int64_t c = 0; c < cells; ++c) {
      const uint64_t key = OrderKey(type, x, first + c * after) ^ flip;
      if (key > own || (key == own && c < at[1])) ++rank;
    }
    if (rank >= k) return;
    const int64_t to = (at[0] * k + rank) * after + at[2];
    StoreNumber(type, values, to, LoadNumber(type, x, i));
    positions[to] = at[1];
  }
};

}  // namespace gpupool::engine::portable

// Calls FOR with every functor of LaunchFor, ROWS with those of LaunchRows.
#define GPUPOOL_INDEXING_FUNCTORS(FOR, ROWS) \
  FOR(GatherFunctor<uint8_t>)                \
  FOR(GatherFunctor<uint16_t>)               \
  FOR(GatherFunctor<uint32_t>)               \
  FOR(GatherFunctor<uint64_t>)               \
  FOR(GatherFunctor<Word16>)                 \
  FOR(GatherElementsFunctor)                 \
  FOR(ScatterElementsFunctor)                \
  FOR(ScatterRowsFunctor)                    \
  FOR(GatherGradFunctor<float>)              \
  FOR(GatherGradFunctor<BFloat16>)           \
  FOR(GatherGradFunctor<Float16>)            \
  FOR(GatherGradFunctor<double>)             \
  FOR(CountTuplesFunctor)                    \
  FOR(CountPartsFunctor)                     \
  FOR(PlaceTuplesFunctor)                    \
  FOR(RankFunctor)                           \
  ROWS(StartsFunctor)                        \
  ROWS(TopKFunctor)
