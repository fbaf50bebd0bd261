// The order of elements of any type, and functors of top k. (Host and device;
// plain C++.)
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/walk.h"

namespace gpupool::engine::portable {

// Returns an unsigned number whose order is that of the elements. NaN is above
// every number, as in PyTorch, and 0 equals -0.
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

// Finds the first k elements of each row of x [before, cells, after] in order.
// Equal elements keep their order. Each turn finds the best element after the
// previous one.
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
    int64_t last_cell = -1;  // none found yet
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
      // A key of 0 may mean a lane without a candidate, so best_cell decides.
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

// Does the same where there are many k of long rows. The place of an element is
// the number of elements that come before it.
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
    grid.SplitFixed<3>(i, at);
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
