// Functors of reductions. (Host and device; plain C++.)
//
// Sums are made in double, in an order that depends on the shape and on the
// lanes of a group only. Large reductions run in two stages: parts of the
// reduced elements first, then the parts' results.
#pragma once

#include <cstdint>

#include "engine/backends/portable/host_device.h"
#include "engine/backends/portable/numbers.h"
#include "engine/backends/portable/reducer.h"
#include "engine/backends/portable/row_functors.h"
#include "engine/backends/portable/walk.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// One thread for each result and part: item part * results + r. With one part
// the results themselves, else totals of Numbers' members.
struct ReduceEachFunctor {
  const void* x = nullptr;
  void* y = nullptr;         // with one part
  Number* totals = nullptr;  // with more
  Reducer reducer;
  ReduceShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t part = shape.parts == 1 ? 0 : i / shape.results;
    const int64_t first = shape.kept.FindOne(i - part * shape.results, 0);
    Number total = reducer.Neutral();
    for (int64_t k = shape.Begin(part); k < shape.End(part); ++k) {
      total = reducer.Add(
          total,
          LoadNumber(reducer.type, x, first + shape.reduced.FindOne(k, 0)));
    }
    if (shape.parts > 1) {
      totals[i] = total;
    } else {
      StoreNumber(reducer.type, y, i, reducer.Finish(total, shape.count));
    }
  }
};

// The same for sums and extremes of a hot type, without switches in the loop.
// Minima are maxima of the negated numbers. Results are doubles.
template <typename T, bool kSum>
struct SumEachFunctor {
  const T* x = nullptr;
  void* y = nullptr;
  Number* totals = nullptr;
  Reducer reducer;
  ReduceShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t part = shape.parts == 1 ? 0 : i / shape.results;
    const int64_t first = shape.kept.FindOne(i - part * shape.results, 0);
    const double sign = reducer.function == ReduceFunction::kMin ? -1 : 1;
    double total = kSum ? 0 : -HUGE_VAL;
    const T* from = x + first;
    shape.ForEach(shape.Begin(part), shape.End(part), 1, [&](int64_t at) {
      const double number = ToFloat(from[at]);
      if (kSum) {
        total += number;
      } else if (sign * number > total || number != number) {
        total = sign * number;
      }
    });
    if (!kSum) total *= sign;
    if (shape.parts > 1) {
      totals[i] = Real(total);
    } else {
      StoreNumber(reducer.type, y, i, reducer.Finish(Real(total), shape.count));
    }
  }
};

// The same where the reduced elements lie next to each other: a group for each
// result and part.
template <typename T, bool kSum>
struct SumRowFunctor {
  const T* x = nullptr;
  void* y = nullptr;
  Number* totals = nullptr;
  Reducer reducer;
  ReduceShape shape;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t part = shape.parts == 1 ? 0 : row / shape.results;
    const int64_t first = shape.kept.FindOne(row - part * shape.results, 0);
    const double sign = reducer.function == ReduceFunction::kMin ? -1 : 1;
    double total = kSum ? 0 : -HUGE_VAL;
    int32_t nan = 0;
    const T* from = x + first;
    const int64_t begin = shape.Begin(part) + group.lane();
    shape.ForEach(begin, shape.End(part), group.lanes(), [&](int64_t at) {
      const double number = ToFloat(from[at]);
      if (kSum) {
        total += number;
      } else if (number != number) {
        nan = 1;
      } else if (sign * number > total) {
        total = sign * number;
      }
    });
    if (kSum) {
      total = group.Sum(total);
    } else {
      total = sign * group.Max(total);
      if (group.Max(nan) != 0) total = NAN;
    }
    if (group.lane() != 0) return;
    if (shape.parts > 1) {
      totals[row] = Real(total);
    } else {
      StoreNumber(reducer.type, y, row,
                  reducer.Finish(Real(total), shape.count));
    }
  }
};

// The second stage: result i out of totals [parts, results].
struct ReducePartsFunctor {
  const Number* totals = nullptr;
  void* y = nullptr;
  Reducer reducer;
  int64_t results = 1;
  int64_t parts = 1;
  int64_t count = 1;  // elements of a result

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    Number total = reducer.Neutral();
    for (int64_t part = 0; part < parts; ++part) {
      total = reducer.Add(total, totals[part * results + i]);
    }
    StoreNumber(reducer.type, y, i, reducer.Finish(total, count));
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
  FOR(ReducePartsFunctor)                  \
  FOR(CumSumFunctor)                       \
  ROWS(SumRowFunctor<float, true>)         \
  ROWS(SumRowFunctor<float, false>)        \
  ROWS(SumRowFunctor<BFloat16, true>)      \
  ROWS(SumRowFunctor<BFloat16, false>)     \
  ROWS(SumRowFunctor<Float16, true>)       \
  ROWS(SumRowFunctor<Float16, false>)      \
  ROWS(ArgReduceFunctor)                   \
  ROWS(SquaresFunctor)                     \
  ROWS(NormFunctor)
