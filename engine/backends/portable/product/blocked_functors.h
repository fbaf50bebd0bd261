// The functor of products with blocked codes. (Host and device; plain C++.)
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"

namespace gpupool::engine::portable {

// Computes y [rows, columns] = a [rows, inner] W^T, where W is (codes - zeros)
// * scales. Each row of the launch is one column and up to kRows rows of a,
// which share the decoded weights. Lanes share the column's bytes.
struct BlockedMatMulFunctor {
  static constexpr int kRows = 8;

  const float* a = nullptr;
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* real_zeros = nullptr;
  const uint8_t* packed_zeros = nullptr;  // neither: `middle`
  float* y = nullptr;
  float middle = 8;
  int32_t bits = 4;
  int64_t rows = 1, columns = 1, inner = 1;
  int64_t blocks = 1;       // of a column
  int64_t block_bytes = 1;  // of a block's codes
  int64_t zero_bytes = 1;   // of a column's packed zeros

  GPUPOOL_HOST_DEVICE int64_t tiles() const {
    return (rows + kRows - 1) / kRows;
  }
  GPUPOOL_HOST_DEVICE float ZeroOf(int64_t column, int64_t block) const {
    if (real_zeros != nullptr) return real_zeros[column * blocks + block];
    if (packed_zeros == nullptr) return middle;
    const uint8_t* zeros = packed_zeros + column * zero_bytes;
    if (bits == 8) return zeros[block];
    const int byte = zeros[block / 2];
    return static_cast<float>(block % 2 == 0 ? byte & 15 : byte >> 4);
  }

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t i) const {
    const int64_t column = i / tiles();
    const int64_t first = (i - column * tiles()) * kRows;
    const int64_t bytes = blocks * block_bytes;
    const uint8_t* own = codes + column * bytes;
    float sums[kRows] = {};
    for (int64_t at = group.lane(); at < bytes; at += group.lanes()) {
      const int64_t block = at / block_bytes;
      const float scale = scales[column * blocks + block];
      const float zero = ZeroOf(column, block);
      const int byte = own[at];
      const int low = bits == 4 ? byte & 15 : byte;
      const float weight = (static_cast<float>(low) - zero) * scale;
      const float second = (static_cast<float>(byte >> 4) - zero) * scale;
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= rows) break;
        const float* row = a + (first + r) * inner;
        if (bits == 8) {
          sums[r] += weight * row[at];
        } else {
          sums[r] += weight * row[2 * at] + second * row[2 * at + 1];
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const float sum = group.Sum(sums[r]);
      if (group.lane() == 0 && first + r < rows) {
        y[(first + r) * columns + column] = sum;
      }
    }
  }
};

}  // namespace gpupool::engine::portable
