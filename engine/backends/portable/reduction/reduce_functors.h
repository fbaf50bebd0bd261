// Functors of reductions. (Host and device; plain C++.)
//
// Sums are made in double, in an order that depends only on the shape, the
// device's size and the number of lanes of a group. Long reductions take two
// launches: one over parts of the reduced elements (parts.h), and one over the
// parts' results.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/reduction/reducer.h"
#include "engine/backends/portable/reduction/row_functors.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// Reduces with one thread for each result and part: item part * results + r.
// Writes results when there is one part, else totals of Number's members.
struct ReduceEachFunctor {
  const void* x = nullptr;
  void* y = nullptr;         // with one part
  Number* totals = nullptr;  // with more
  Reducer reducer;
  ReduceShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const Parts& parts = shape.parts;
    const int64_t part = parts.parts == 1 ? 0 : i / shape.results;
    const int64_t first = shape.kept.FindOne(i - part * shape.results, 0);
    Number total = reducer.Neutral();
    shape.reduced.ForEach(
        parts.Begin(part), parts.End(part), 1, [&](int64_t at) {
          total = reducer.Add(total, LoadNumber(reducer.type, x, first + at));
        });
    if (parts.parts > 1) {
      totals[i] = total;
    } else {
      StoreNumber(reducer.type, y, i, reducer.Finish(total, parts.count));
    }
  }
};

// A sum or an extreme of a hot type, without switches in the loop. A minimum is
// the maximum of the negated numbers. Results are doubles. NaN stays.
template <bool kSum>
struct HotTotal {
  double sign = 1;
  double total = kSum ? 0 : -HUGE_VAL;

  GPUPOOL_HOST_DEVICE void Add(double number) {
    if (kSum) {
      total += number;
    } else if (sign * number > total || number != number) {
      total = sign * number;
    }
  }
  GPUPOOL_HOST_DEVICE Number Result() const { return Real(sign * total); }
};

// Reduces with one thread per result, for many results.
template <typename T, bool kSum>
struct SumEachFunctor {
  const T* x = nullptr;
  void* y = nullptr;
  Reducer reducer;
  ReduceShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    HotTotal<kSum> mine{reducer.sign()};
    const T* from = x + shape.kept.FindOne(i, 0);
    shape.reduced.ForEach(0, shape.parts.count, 1,
                          [&](int64_t at) { mine.Add(ToFloat(from[at])); });
    StoreNumber(reducer.type, y, i,
                reducer.Finish(mine.Result(), shape.parts.count));
  }
};

// Reduces with one group for each item of the parts.
template <typename T, bool kSum>
struct SumPartsFunctor {
  const T* x = nullptr;
  void* y = nullptr;         // with one part
  Number* totals = nullptr;  // [parts, results], with more
  Reducer reducer;
  ReduceShape shape;

  template <typename Group>
  GPUPOOL_HOST_DEVICE double Total(const Group& group, int64_t part,
                                   int64_t result, int columns) const {
    HotTotal<kSum> mine{reducer.sign()};
    if (result < shape.results) {
      const T* from = x + shape.kept.FindOne(result, 0);
      shape.reduced.ForEach(shape.parts.Begin(part) + group.lane() / columns,
                            shape.parts.End(part), group.lanes() / columns,
                            [&](int64_t at) { mine.Add(ToFloat(from[at])); });
    }
    mine.total = kSum ? group.SumOfColumn(mine.total, columns)
                      : group.MaxOfColumn(mine.total, columns);
    return mine.Result().real;
  }

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t item) const {
    shape.parts.ForEachSum(
        group, item, [&](int64_t part, int64_t result, int columns) {
          const Number total = Real(Total(group, part, result, columns));
          if (result >= shape.results || group.lane() >= columns) return;
          if (shape.parts.parts > 1) {
            totals[part * shape.results + result] = total;
          } else {
            StoreNumber(reducer.type, y, result,
                        reducer.Finish(total, shape.parts.count));
          }
        });
  }
};

// The second launch. A group computes result i from totals [parts, results],
// which it overwrites.
struct JoinPartsFunctor {
  Number* totals = nullptr;
  void* y = nullptr;
  Reducer reducer;
  int64_t results = 1;
  int64_t parts = 1;
  int64_t count = 1;  // elements of a result

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t i) const {
    const int64_t lane = group.lane();
    Number total = reducer.Neutral();
    for (int64_t part = lane; part < parts; part += group.lanes()) {
      total = reducer.Add(total, totals[part * results + i]);
    }
    // The lane has read its own part, and no other lane reads it any more.
    if (lane < parts) totals[lane * results + i] = total;
    for (int64_t step = group.lanes() / 2; step > 0; step /= 2) {
      group.Meet();
      if (lane >= step || lane + step >= parts) continue;
      total = reducer.Add(total, totals[(lane + step) * results + i]);
      totals[lane * results + i] = total;
    }
    if (lane == 0) {
      StoreNumber(reducer.type, y, i, reducer.Finish(total, count));
    }
  }
};

}  // namespace gpupool::engine::portable

// Calls FOR with every functor of LaunchFor, ROWS with those of LaunchRows.
#define GPUPOOL_REDUCE_FUNCTORS(FOR, ROWS) \
  FOR(ReduceEachFunctor)                   \
  FOR(SumEachFunctor<float, true>)         \
  FOR(SumEachFunctor<float, false>)        \
  FOR(SumEachFunctor<BFloat16, true>)      \
  FOR(SumEachFunctor<BFloat16, false>)     \
  FOR(SumEachFunctor<Float16, true>)       \
  FOR(SumEachFunctor<Float16, false>)      \
  FOR(CumSumFunctor)                       \
  ROWS(JoinPartsFunctor)                   \
  ROWS(SumPartsFunctor<float, true>)       \
  ROWS(SumPartsFunctor<float, false>)      \
  ROWS(SumPartsFunctor<BFloat16, true>)    \
  ROWS(SumPartsFunctor<BFloat16, false>)   \
  ROWS(SumPartsFunctor<Float16, true>)     \
  ROWS(SumPartsFunctor<Float16, false>)    \
  ROWS(ArgReduceFunctor)                   \
  ROWS(SquaresFunctor)                     \
  ROWS(NormFunctor)
