// Functors of positions of extremes, running sums and the global norm. Part of
// the reduce family. (Host and device; plain C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/movement/order_functors.h"

namespace gpupool::engine::portable {

// Finds the first or last extreme of each row of x [before, cells, after].
struct ArgReduceFunctor {
  const void* x = nullptr;
  int64_t* y = nullptr;
  DType type = DType::kFloat32;
  bool maximum = true;
  bool last = false;
  int64_t cells = 1;
  int64_t after = 1;

  // NaN has the greatest key, for minima as for maxima.
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

// Computes running sums along each row of x [before, cells, after].
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

// Sums up squares of many values, cut into pieces. Row p adds up piece p.
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

// Computes min(1, max_norm / (root of the sum of all pieces + 1e-6)). Has one
// row.
struct NormFunctor {
  const double* sums = nullptr;
  int64_t pieces = 0;
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
    StoreDouble(type, y, 0, std::sqrt(sum));
  }
};

}  // namespace gpupool::engine::portable
