// Functors of gathers and scatters. (Host and device; plain C++.)
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/launch/errors.h"
#include "engine/backends/portable/movement/bucket_functors.h"
#include "engine/backends/portable/movement/movement_functors.h"
#include "engine/backends/portable/movement/order_functors.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// Gathers y [batch, tuples, after] from x [batch, cells, after]. Each batch has
// its own tuples, or all batches share them.
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
    grid.SplitFixed<3>(i, at);
    const int64_t tuple = shared ? at[1] : at[0] * grid.sizes[1] + at[1];
    const int64_t cell = tuples.TargetOf(tuple);
    if (cell < 0) {
      y[i] = Word{};
      return;
    }
    y[i] = x[(at[0] * cells + cell) * grid.sizes[2] + at[2]];
  }
};

// Gathers y, which has the indices' shape. x may be longer along every axis.
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

// Walks one row of x [rows, cells] through one tree. Call i is row i / trees.
struct TreeWalkFunctor {
  const void* x = nullptr;
  const int32_t* columns = nullptr;
  const void* thresholds = nullptr;
  const int32_t* larger = nullptr;
  const int32_t* smaller = nullptr;
  const int32_t* roots = nullptr;
  int32_t* y = nullptr;
  DType type = DType::kFloat32;
  int64_t cells = 1, slots = 1, trees = 1, levels = 0;
  ErrorPlace error;

  // Returns the slot after `slot`, or -1 after an error.
  GPUPOOL_HOST_DEVICE int64_t Next(int64_t row, int64_t slot) const {
    const int64_t at = ResolveIndex(error, slot, slots);
    if (at < 0) return -1;
    const int32_t column = columns[at];
    const int64_t cell =
        ResolveIndex(error, column < 0 ? ~column : column, cells);
    if (cell < 0) return -1;
    const double number = LoadNumber(type, x, row * cells + cell).real;
    const bool small = number != number
                           ? column < 0
                           : number <= LoadNumber(type, thresholds, at).real;
    return small ? smaller[at] : larger[at];
  }
  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / trees;
    int64_t slot = roots[i - row * trees];
    for (int64_t level = 0; level < levels; ++level) slot = Next(row, slot);
    y[i] = static_cast<int32_t>(slot);
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

// Scatters one lane along an axis. Lanes write different elements. Call i takes
// position i in the other axes of the updates. y holds x beforehand.
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

// Scatters rows into y [buckets, after]. y may be x.
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
    grid.SplitFixed<2>(i, at);
    Number total = LoadNumber(type, x, i);
    const int32_t end = buckets.starts[at[0] + 1];
    for (int32_t k = buckets.starts[at[0]]; k < end; ++k) {
      const int64_t from = buckets.order[k] * grid.sizes[1] + at[1];
      total = Combine(reduction, type, total, LoadNumber(type, updates, from));
    }
    StoreNumber(type, y, i, total);
  }
};

// Computes the gradient of a gather: dx [before, buckets, after] from dy
// [before, tuples, after]. T is a hot type or double.
template <typename T>
struct GatherGradFunctor {
  const T* dy = nullptr;
  T* dx = nullptr;
  int64_t tuples = 1;
  Buckets buckets;
  Grid grid;  // before, buckets, after

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[3];
    grid.SplitFixed<3>(i, at);
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
  FOR(TreeWalkFunctor)                       \
  ROWS(StartsFunctor)                        \
  ROWS(TopKFunctor)
