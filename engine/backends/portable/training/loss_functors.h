// Functors of losses and of the count of correct answers. (Host and device;
// plain C++.)
//
// T is a floating type. Each row's loss is a double in scratch memory. One
// group adds them up, in an order that depends only on its number of lanes.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/launch/errors.h"
#include "engine/backends/portable/reduction/softmax_functors.h"

namespace gpupool::engine::portable {

// The labels of a batch, and the rows that count.
struct LabelRows {
  const void* labels = nullptr;        // int32 or int64 [rows]
  const int64_t* row_count = nullptr;  // null: all rows
  bool wide = false;
  bool ignores = false;
  int64_t ignored = 0;  // rows with this label do not count
  int64_t rows = 0;
  int64_t classes = 1;
  ErrorPlace error;

  GPUPOOL_HOST_DEVICE int64_t counted() const {
    if (row_count == nullptr) return rows;
    const int64_t given = *row_count;
    return given < 0 ? 0 : (given < rows ? given : rows);
  }
  GPUPOOL_HOST_DEVICE bool Counts(int64_t row) const {
    return row < counted() &&
           !(ignores && LoadIndex(wide, labels, row) == ignored);
  }
  // Returns the row's label, or -1 when it lies outside. Then reports an error
  // if `report` is set.
  GPUPOOL_HOST_DEVICE int64_t Label(int64_t row, bool report) const {
    const int64_t label = LoadIndex(wide, labels, row);
    if (label >= 0 && label < classes) return label;
    if (report) Report(error, kLabelOutside, label, classes);
    return -1;
  }
};

// Computes the cross entropy of each row.
template <typename T>
struct CrossEntropyFunctor {
  const T* logits = nullptr;
  double* losses = nullptr;
  LabelRows rows;
  double smoothing = 0;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const bool counts = rows.Counts(row);
    const int64_t label =
        counts ? rows.Label(row, group.lane() == 0) : int64_t{-1};
    if (label < 0) {
      if (group.lane() == 0) losses[row] = 0;
      return;
    }
    const T* x = logits + row * rows.classes;
    const RowExponents<R> exponents = ExponentsOf(group, x, rows.classes);
    const double norm = std::log(exponents.sum);  // beyond the greatest
    double below = 0;
    if (smoothing != 0) {
      double sum = 0;
      for (int64_t c = group.lane(); c < rows.classes; c += group.lanes()) {
        sum += double{exponents.top} - Load(x, c);
      }
      below = group.Sum(sum) / static_cast<double>(rows.classes);
    }
    if (group.lane() != 0) return;
    double loss = norm + (double{exponents.top} - Load(x, label));
    if (smoothing != 0) {
      loss = (1 - smoothing) * loss + smoothing * (norm + below);
    }
    losses[row] = loss;
  }
};

// Returns the divisor of the rows' losses: the number of rows that count, at
// least 1.
template <typename Group>
GPUPOOL_HOST_DEVICE inline double DivisorOf(const Group& group,
                                            const LabelRows& rows) {
  double counted = 0;
  for (int64_t r = group.lane(); r < rows.rows; r += group.lanes()) {
    if (rows.Counts(r)) counted += 1;
  }
  counted = group.Sum(counted);
  return counted < 1 ? 1.0 : counted;
}

// Computes the gradient's divisor. Has one row.
struct DivisorFunctor {
  LabelRows rows;
  double* divisor = nullptr;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t) const {
    const double result = DivisorOf(group, rows);
    if (group.lane() == 0) *divisor = result;
  }
};

// Computes a row of (softmax(x) - wanted) / divisor.
template <typename T>
struct CrossEntropyGradFunctor {
  const T* logits = nullptr;
  T* slopes = nullptr;
  const double* divisor = nullptr;  // null: 1
  LabelRows rows;
  double smoothing = 0;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const int64_t classes = rows.classes;
    T* to = slopes + row * classes;
    const bool counts = rows.Counts(row);
    const int64_t label =
        counts ? rows.Label(row, group.lane() == 0) : int64_t{-1};
    if (label < 0) {
      for (int64_t c = group.lane(); c < classes; c += group.lanes()) {
        Store(to, c, R(0));
      }
      return;
    }
    const T* x = logits + row * classes;
    const RowExponents<R> exponents = ExponentsOf(group, x, classes);
    const auto scale = static_cast<R>(1 / exponents.sum);
    const auto smooth =
        static_cast<R>(smoothing / static_cast<double>(classes));
    const auto share = static_cast<R>(divisor == nullptr ? 1 : 1 / *divisor);
    for (int64_t c = group.lane(); c < classes; c += group.lanes()) {
      const R wanted = c == label ? R(1 - smoothing) + smooth : smooth;
      const R p = std::exp(Load(x, c) - exponents.top) * scale;
      Store(to, c, (p - wanted) * share);
    }
  }
};

// Gives 1 for each row whose first greatest logit is the label's, else 0.
template <typename T>
struct CorrectFunctor {
  const T* logits = nullptr;
  double* right = nullptr;
  LabelRows rows;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const int64_t label =
        row < rows.counted() ? rows.Label(row, group.lane() == 0) : int64_t{-1};
    if (label < 0) {
      if (group.lane() == 0) right[row] = 0;
      return;
    }
    const T* x = logits + row * rows.classes;
    R mine = -R(HUGE_VAL);
    for (int64_t c = group.lane(); c < rows.classes; c += group.lanes()) {
      const R number = Load(x, c);
      if (number > mine) mine = number;
    }
    const R top = group.Max(mine);
    int64_t first = rows.classes;
    for (int64_t c = group.lane(); c < rows.classes; c += group.lanes()) {
      if (first == rows.classes && Load(x, c) == top) first = c;
    }
    first = -group.Max(-first);
    if (group.lane() == 0) right[row] = first == label ? 1 : 0;
  }
};

// Sums up squared differences of pieces of the rows that count.
template <typename T>
struct SquaredErrorFunctor {
  static constexpr int64_t kPiece = 16 << 10;  // elements

  const T* prediction = nullptr;
  const T* target = nullptr;
  double* sums = nullptr;
  LabelRows rows;  // without labels
  int64_t per_row = 1;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t piece) const {
    const int64_t all = rows.counted() * per_row;
    const int64_t most = (piece + 1) * kPiece;
    const int64_t end = most < all ? most : all;
    double sum = 0;
    for (int64_t i = piece * kPiece + group.lane(); i < end;
         i += group.lanes()) {
      const double d = double{Load(prediction, i)} - double{Load(target, i)};
      sum += d * d;
    }
    sum = group.Sum(sum);
    if (group.lane() == 0) sums[piece] = sum;
  }
};

template <typename T>
struct SquaredErrorGradFunctor {
  const T* prediction = nullptr;
  const T* target = nullptr;
  T* slopes = nullptr;  // may be an input
  double factor = 1;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    Store(slopes, i,
          (Load(prediction, i) - Load(target, i)) *
              static_cast<Real_t<T>>(factor));
  }
};

enum class LossDivisor : uint8_t {
  kNone,
  kRows,     // rows that row_count leaves
  kCounted,  // the same, except rows with an ignored label
};

// Divides the sum of `parts` numbers. Has one row. The result is floating, or
// int64 for counts.
struct LossFunctor {
  const double* numbers = nullptr;
  int64_t parts = 0;
  LossDivisor divisor = LossDivisor::kNone;
  double factor = 1;  // of the sum
  LabelRows rows;
  void* y = nullptr;
  DType type = DType::kFloat32;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t) const {
    double sum = 0;
    for (int64_t i = group.lane(); i < parts; i += group.lanes()) {
      sum += numbers[i];
    }
    sum = group.Sum(sum) * factor;
    if (divisor == LossDivisor::kCounted) {
      sum /= DivisorOf(group, rows);
    } else if (divisor == LossDivisor::kRows) {
      const int64_t counted = rows.counted();
      sum /= static_cast<double>(counted < 1 ? 1 : counted);
    }
    if (group.lane() == 0) StoreDouble(type, y, 0, sum);
  }
};

}  // namespace gpupool::engine::portable

#define GPUPOOL_LOSS_FUNCTORS_OF(FOR, ROWS, T) \
  FOR(SquaredErrorGradFunctor<T>)              \
  ROWS(CrossEntropyFunctor<T>)                 \
  ROWS(CrossEntropyGradFunctor<T>)             \
  ROWS(CorrectFunctor<T>)                      \
  ROWS(SquaredErrorFunctor<T>)

// Calls FOR with every functor of LaunchFor, ROWS with those of LaunchRows.
#define GPUPOOL_LOSS_FUNCTORS(FOR, ROWS)        \
  ROWS(DivisorFunctor)                          \
  ROWS(LossFunctor)                             \
  GPUPOOL_LOSS_FUNCTORS_OF(FOR, ROWS, float)    \
  GPUPOOL_LOSS_FUNCTORS_OF(FOR, ROWS, BFloat16) \
  GPUPOOL_LOSS_FUNCTORS_OF(FOR, ROWS, Float16)  \
  GPUPOOL_LOSS_FUNCTORS_OF(FOR, ROWS, double)
