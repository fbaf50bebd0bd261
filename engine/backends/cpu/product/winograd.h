// Convolutions of 3x3 windows with stride 1 by Winograd's algorithm F(4x4, 3x3)
// (Lavin and Gray 2015, arXiv 1509.09308). An image is cut into tiles of 4x4
// results, each of which depends on a window of 6x6 cells. With the transforms
//   V = B^T d B  of a window,  U = G g G^T  of a 3x3 kernel,  M = V * U,
// a tile of results is A^T M A. V * U is a product cell by cell, so all tiles
// together take 36 matrix products over channels, [tiles, C] x [C, K]. That is
// a quarter of the multiplications of the plain algorithm. The gradient by
// images is the same with the kernels rotated by 180 degrees. The gradient by
// weights is the transposed algorithm, G^T (sum over tiles of V * (A dy A^T))
// G.
//
// A window of a volume is a stack of 3x3 windows, its taps. Each slice of the
// result is the convolution of as many slices of the volume, whose channels
// follow each other: its tiles are products over taps times channels.
//
// The makers return a null kernel where another algorithm is faster.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Make kernels for images with channels last and for row-major volumes. Weights
// are [filters, channels, 3, 3] or [filters, channels, taps, 3, 3].
KernelOr MakeWinogradConv2d(const CompileRequest& request,
                            const CpuContext& context);
KernelOr MakeWinogradInputGrad(const CompileRequest& request,
                               const CpuContext& context);
KernelOr MakeWinogradWeightGrad(const CompileRequest& request,
                                const CpuContext& context);

// The points of the algorithm are 0, +a, -a, +b, -b and infinity. A polynomial
// of degree 5 is determined by its values there. These a and b keep rounding
// errors small in float32.
inline constexpr double kWinogradA = 0.625;
inline constexpr double kWinogradB = 1.5;

inline constexpr int kWinogradResults = 4;  // along an edge of a tile
inline constexpr int kWinogradWindow = 6;
inline constexpr int kWinogradFrequencies = 36;  // cells of a transformed tile
// Channels must be multiples of the widest vector.
inline constexpr int64_t kWinogradLanes = 16;
inline constexpr int64_t kWinogradBlock = 64;  // channels that lie together
// Padding in numbers behind the matrix of each frequency. Without it the
// matrices would compete for the same cache lines.
inline constexpr int64_t kWinogradSkew = 16;

// The tiles of an image batch, counted over images, rows and columns. The
// images are slices of the results; each reads `taps` slices of x.
struct WinogradTiles {
  int64_t images = 0, height = 0, width = 0, channels = 0;
  int64_t rows = 0, columns = 0;     // tiles of one image
  int64_t begin_y = 0, begin_x = 0;  // padding before the first tile
  int64_t taps = 1;
  int64_t depth = 1, result_depth = 1;  // slices of a volume
  int64_t begin_z = 0;                  // padding before the first slice

  // Returns the channels of all taps.
  int64_t inputs() const { return taps * channels; }
  // Returns the slice of x that a tap of an image reads, or -1 for padding.
  int64_t Slice(int64_t image, int64_t tap) const {
    const int64_t z = image % result_depth + tap - begin_z;
    return z < 0 || z >= depth ? -1 : image / result_depth * depth + z;
  }
  int64_t count() const { return images * rows * columns; }
  // Returns how many tiles to transform at a time. The tiles form as few groups
  // of about equal size as their matrices, over `channels` channels, fit in
  // `bytes`. The number of groups is a multiple of `threads` unless there are
  // few tiles.
  int64_t group(int64_t channels, int64_t bytes, int threads) const;
};

// The tiles [begin, end) of a group whose first tile is `first`.
struct WinogradTileRange {
  int64_t first = 0, begin = 0, end = 0;
};

// Transformed tiles. Each block of channels has 36 matrices [tiles, channels].
struct WinogradMatrices {
  int64_t channels = 0, tiles = 0;

  int64_t width(int64_t block) const {
    return std::min(kWinogradBlock, channels - block * kWinogradBlock);
  }
  // Returns the distance in numbers from one matrix to the next.
  int64_t stride(int64_t block) const {
    return tiles * width(block) + kWinogradSkew;
  }
  // Returns the offset in numbers of a block's first matrix.
  int64_t offset(int64_t block) const {
    return block * kWinogradFrequencies *
           (tiles * kWinogradBlock + kWinogradSkew);
  }
  int64_t blocks() const {
    return (channels + kWinogradBlock - 1) / kWinogradBlock;
  }
  int64_t size() const {
    return offset(blocks() - 1) + kWinogradFrequencies * stride(blocks() - 1);
  }
};

// The values of a convolution or of its gradients: images, weights, results.
struct ConvolutionValues {
  const Value& x;
  const Value& w;
  const Value& y;
};

// Returns whether Winograd's algorithm is faster for this convolution:
// - It has 3x3 windows with stride 1.
// - Its channels fill vectors. Those of volumes fill blocks, since the taps of
// a
//   block are the same.
// - Its tiles are mostly full of results.
// - Enough tiles share the transformed kernels, which are four times as large
//   as the plain ones. More tiles are needed where the kernels are not
//   `stable`, since each run transforms them. Where they are, the batch does
//   not count.
bool SuitsWinograd(const Conv2dAttributes& conv,
                   const ConvolutionValues& values, bool stable);
// Returns the tiles of `x` from which the tiles of `y` follow, with the padding
// before them.
WinogradTiles TilesOf(const Value& x, const Value& y, const Extent& begin);
// Returns the slices that a window of these weights reads.
int64_t TapsOf(const Shape& weights);

}  // namespace gpupool::engine
