// Depthwise convolutions of channels-last images in float32: windows of 3x3,
// 5x5 or 7x7 with stride 1 or 2. A result is a sum in a fixed order, so it is
// the same with any number of threads and in every batch.
#pragma once

#include <cstdint>

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// The most channels of a cell that are computed one vector after another.
// Blocks of a cell are read from cache lines that follow each other. Wider
// blocks push the rows that a window shares with the next one out of the first
// cache.
inline constexpr int64_t kMostBlockChannels = 160;

// Names what follows the sum of a window. The most frequent epilogues have
// loops of their own.
enum class DepthwiseEnd : uint8_t { kNothing, kRelu, kSilu, kOther };

// The sizes of one convolution.
struct DepthwisePlan {
  int64_t images = 0, channels = 0;
  int64_t height = 0, width = 0;     // of an image
  int64_t rows = 0, columns = 0;     // of a result
  int64_t begin_y = 0, begin_x = 0;  // padding before the first cell
  int kernel = 0, stride = 1;        // along either axis
  Epilogue epilogue;
  DepthwiseEnd end = DepthwiseEnd::kOther;

  int64_t blocks() const {
    return (channels + kMostBlockChannels - 1) / kMostBlockChannels;
  }
  // Blocks are of nearly equal widths, since threads get equal counts of rows.
  int64_t block_channels() const {
    return ((channels + blocks() - 1) / blocks() + 15) / 16 * 16;
  }
};

struct DepthwiseBuffers {
  const float* x = nullptr;
  const float* w = nullptr;         // [kernel, kernel, channels]
  const float* bias = nullptr;      // or null
  const float* residual = nullptr;  // or null
  float* y = nullptr;
};

// Makes the kernel. Weights are [channels, 1, kernel, kernel]. Returns null for
// convolutions that are not of this kind.
KernelOr MakeDepthwiseConv2d(const CompileRequest& request,
                             const CpuContext& context);

}  // namespace gpupool::engine
