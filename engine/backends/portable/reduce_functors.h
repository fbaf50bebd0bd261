// Functors of reductions, positions of extremes and running sums. (Host and
// device; plain C++.)
//
// Sums are made in double, in an order that depends on the shape and on the
// lanes of a group only. Large reductions run in two stages: parts of the
// reduced elements first, then the parts' results.
#pragma once

#include <cstdint>

#include "engine/backends/portable/host_device.h"
#include "engine/backends/portable/indexing_functors.h"
#include "engine/backends/portable/numbers.h"
#include "engine/backends/portable/walk.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// What a reduction does with elements of a type. kMean is kSum; whoever stores
// the result divides.
struct Reducer {
  ReduceFunction function = ReduceFunction::kSum;
  DType type = DType::kFloat32;

  // What a reduction of nothing gives.
  GPUPOOL_HOST_DEVICE Number Neutral() const {
    switch (function) {
      case ReduceFunction::kProduct:
        return IsFloatingType(type) ? Real(1) : Whole(1);
      case ReduceFunction::kMax:
        return IsFloatingType(type) ? Real(-HUGE_VAL) : Whole(Least());
      case ReduceFunction::kMin:
        return IsFloatingType(type) ? Real(HUGE_VAL) : Whole(Greatest());
      default:
        return {};
    }
  }

  GPUPOOL_HOST_DEVICE Number Add(Number total, Number x) const {
    if (!IsFloatingType(type)) return Whole(AddWhole(total.whole, x.whole));
    switch (function) {
      case ReduceFunction::kProduct:
        return Real(total.real * x.real);
      case ReduceFunction::kMax:
        return x.real > total.real || x.real != x.real ? x : total;
      case ReduceFunction::kMin:
        return x.real < total.real || x.real != x.real ? x : total;
      default:
        return Real(total.real + x.real);
    }
  }

  // The result out of the total of `count` elements.
  GPUPOOL_HOST_DEVICE Number Finish(Number total, int64_t count) const {
    if (function != ReduceFunction::kMean) return total;
    if (IsFloatingType(type)) {
      return Real(total.real / static_cast<double>(count));
    }
    return Whole(count == 0 ? 0 : total.whole / count);
  }

 private:
  GPUPOOL_HOST_DEVICE int64_t AddWhole(int64_t total, int64_t x) const {
    const auto a = static_cast<uint64_t>(total);
    const auto b = static_cast<uint64_t>(x);
    switch (function) {
      case ReduceFunction::kProduct:
        return static_cast<int64_t>(a * b);
      case ReduceFunction::kMax:
        return x > total ? x : total;
      case ReduceFunction::kMin:
        return x < total ? x : total;
      default:
        return static_cast<int64_t>(a + b);
    }
  }
  GPUPOOL_HOST_DEVICE int64_t Least() const {
    switch (type) {
      case DType::kInt8:
        return INT8_MIN;
      case DType::kInt32:
        return INT32_MIN;
      case DType::kInt64:
        return INT64_MIN;
      default:
        return 0;
    }
  }
  GPUPOOL_HOST_DEVICE int64_t Greatest() const {
    switch (type) {
      case DType::kInt8:
        return INT8_MAX;
      case DType::kInt32:
        return INT32_MAX;
      case DType::kInt64:
        return INT64_MAX;
      case DType::kBool:
        return 1;
      default:
        return UINT8_MAX;
    }
  }
};

// Which elements a reduction adds up. Result r of `results` is at kept(r) in
// the source, plus reduced(k) for each 0 <= k < count, cut into parts.
struct ReduceShape {
  int64_t results = 1;
  int64_t count = 1;
  int64_t per_part = 1;
  int64_t parts = 1;
  Walk<1> kept;
  Walk<1> reduced;

  GPUPOOL_HOST_DEVICE int64_t Begin(int64_t part) const {
    return part * per_part;
  }
  GPUPOOL_HOST_DEVICE int64_t End(int64_t part) const {
    const int64_t end = (part + 1) * per_part;
    return end < count ? end : count;
  }
};

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
    const int64_t begin = shape.Begin(part);
    const int64_t end = shape.End(part);
    const double sign = reducer.function == ReduceFunction::kMin ? -1 : 1;
    double total = kSum ? 0 : -HUGE_VAL;
    const bool plain = shape.reduced.loops == 1;
    const int64_t step = shape.reduced.strides[0][0];
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = plain ? k * step : shape.reduced.FindOne(k, 0);
      const double number = ToFloat(x[first + at]);
      if (kSum) {
        total += number;
      } else {
        const double signed_number = sign * number;
        if (signed_number > total || signed_number != signed_number) {
          total = signed_number;
        }
      }
    }
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
    const int64_t end = shape.End(part);
    const double sign = reducer.function == ReduceFunction::kMin ? -1 : 1;
    double total = kSum ? 0 : -HUGE_VAL;
    int32_t nan = 0;
    const bool plain = shape.reduced.loops == 1;
    const int64_t step = shape.reduced.strides[0][0];
    for (int64_t k = shape.Begin(part) + group.lane(); k < end;
         k += group.lanes()) {
      const int64_t at = plain ? k * step : shape.reduced.FindOne(k, 0);
      const double number = ToFloat(x[first + at]);
      if (kSum) {
        total += number;
      } else if (number != number) {
        nan = 1;
      } else if (sign * number > total) {
        total = sign * number;
      }
    }
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

// The position of the first or last extreme of each row of x [before, cells,
// after].
struct ArgReduceFunctor {
  const void* x = nullptr;
  int64_t* y = nullptr;
  DType type = DType::kFloat32;
  bool maximum = true;
  bool last = false;
  int64_t cells = 1;
  int64_t after = 1;

  // NaN is beyond every number on both ends.
  GPUPOOL_HOST_DEVICE uint64_t KeyOf(int64_t at) const {
    const uint64_t key = OrderKey(type, x, at);
    const bool nan = key == ~uint64_t{0} && IsFloatingType(type);
    return maximum || nan ? key : ~key;
  }

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t first = row / after * cells * after + row % after;
    uint64_t best_key = 0;
    int64_t best_cell = -1;
    for (int64_t c = group.lane(); c < cells; c += group.lanes()) {
      const uint64_t key = KeyOf(first + c * after);
      if (best_cell < 0 || key > best_key || (last && key == best_key)) {
        best_key = key;
        best_cell = c;
      }
    }
    const uint64_t key = group.Max(best_key);
    const bool mine = best_cell >= 0 && best_key == key;
    const int64_t cell = last ? group.Max(mine ? best_cell : int64_t{-1})
                              : -group.Max(mine ? -best_cell : -cells);
    if (group.lane() == 0) y[row] = cell;
  }
};

// Running sums along each row of x [before, cells, after].
struct CumSumFunctor {
  const void* x = nullptr;
  void* y = nullptr;
  DType type = DType::kFloat32;
  bool exclusive = false;
  bool reverse = false;
  int64_t cells = 1;
  int64_t after = 1;

  GPUPOOL_HOST_DEVICE void operator()(int64_t row) const {
    const int64_t first = row / after * cells * after + row % after;
    Number total;
    for (int64_t k = 0; k < cells; ++k) {
      const int64_t at = first + (reverse ? cells - 1 - k : k) * after;
      const Number number = LoadNumber(type, x, at);
      if (exclusive) StoreNumber(type, y, at, total);
      total.real += number.real;
      total.whole = static_cast<int64_t>(static_cast<uint64_t>(total.whole) +
                                         static_cast<uint64_t>(number.whole));
      if (!exclusive) StoreNumber(type, y, at, total);
    }
  }
};

// Sums of squares of many values, cut into pieces: row p adds up piece p.
struct SquaresFunctor {
  static constexpr int kMostValues = 128;
  static constexpr int64_t kPiece = 64 << 10;  // elements

  const void* values[kMostValues];
  int64_t counts[kMostValues];
  int32_t first_pieces[kMostValues + 1];
  int32_t value_count = 0;
  DType type = DType::kFloat32;
  double* sums = nullptr;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t piece) const {
    int32_t value = 0;
    while (piece >= first_pieces[value + 1]) ++value;
    const int64_t begin = (piece - first_pieces[value]) * kPiece;
    const int64_t most = begin + kPiece;
    const int64_t end = most < counts[value] ? most : counts[value];
    double sum = 0;
    for (int64_t i = begin + group.lane(); i < end; i += group.lanes()) {
      const double x = LoadNumber(type, values[value], i).real;
      sum += x * x;
    }
    sum = group.Sum(sum);
    if (group.lane() == 0) sums[piece] = sum;
  }
};

// min(1, max_norm / (root of the sum of all pieces + 1e-6)); one row.
struct ClipFunctor {
  const double* sums = nullptr;
  int64_t pieces = 0;
  double max_norm = 1;
  void* y = nullptr;
  DType type = DType::kFloat32;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t) const {
    double sum = 0;
    for (int64_t i = group.lane(); i < pieces; i += group.lanes()) {
      sum += sums[i];
    }
    sum = group.Sum(sum);
    if (group.lane() != 0) return;
    const double scale = max_norm / (std::sqrt(sum) + 1e-6);
    StoreDouble(type, y, 0, scale > 1 ? 1.0 : scale);
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
  ROWS(ClipFunctor)
