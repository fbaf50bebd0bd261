// Convolutions of 3x3 windows with stride 1 by Winograd's algorithm F(4x4, 3x3)
// (Lavin and Gray 2015, arXiv 1509.09308): an image falls into tiles of 4x4
// results, each of which takes a window of 6x6 cells. With the transforms
//   V = B^T d B  of a window,  U = G g G^T  of a 3x3 kernel,  M = V * U,
// a tile of results is A^T M A. The product is taken cell by cell, so it is 36
// matrix products over channels, [tiles, C] x [C, K], a quarter of the
// multiplications of the plain algorithm. The gradient by images is the same
// with the kernels turned round; that by weights is the transposed algorithm,
// G^T (sum over tiles of V * (A dy A^T)) G.
//
// The makers give a null kernel where another algorithm is faster.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/backends/cpu/kernel/kernels.h"

namespace gpupool::engine {

// Images are channels last, and weights [filters, channels, 3, 3].
KernelOr MakeWinogradConv2d(const CompileRequest& request,
                            const CpuContext& context);
KernelOr MakeWinogradInputGrad(const CompileRequest& request,
                               const CpuContext& context);
KernelOr MakeWinogradWeightGrad(const CompileRequest& request,
                                const CpuContext& context);

// A polynomial of degree 5 is found again from its values at 0, +a, -a, +b, -b
// and infinity. These a and b keep rounding errors small in float32.
inline constexpr double kWinogradA = 0.625;
inline constexpr double kWinogradB = 1.5;

inline constexpr int kWinogradResults = 4;  // along an edge of a tile
inline constexpr int kWinogradWindow = 6;
inline constexpr int kWinogradFrequencies = 36;  // cells of a transformed tile
// Channels are multiples of the widest vector.
inline constexpr int64_t kWinogradLanes = 16;
inline constexpr int64_t kWinogradBlock = 64;  // channels that lie together
// The matrices of the frequencies lie this much further apart, in numbers, than
// their size, so that they do not compete for the same cache lines.
inline constexpr int64_t kWinogradSkew = 16;

// How an image falls into tiles. Tiles count over images, rows, columns.
struct WinogradTiles {
  int64_t images = 0, height = 0, width = 0, channels = 0;
  int64_t rows = 0, columns = 0;     // tiles of one image
  int64_t begin_y = 0, begin_x = 0;  // padding before the first tile

  int64_t count() const { return images * rows * columns; }
  // Tiles that are transformed at a time: as few groups as the bytes of the
  // matrices of so many channels allow, all of about one size and, unless they
  // are tiny, a multiple of `threads`.
  int64_t group(int64_t channels, int64_t bytes, int threads) const;
};

// Transformed tiles: for each block of channels 36 matrices [tiles, channels].
struct WinogradMatrices {
  int64_t channels = 0, tiles = 0;

  int64_t width(int64_t block) const {
    return std::min(kWinogradBlock, channels - block * kWinogradBlock);
  }
  // Numbers from one matrix to the next.
  int64_t stride(int64_t block) const {
    return tiles * width(block) + kWinogradSkew;
  }
  // Where the first matrix of a block begins.
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

// Whether this is a convolution of 3x3 windows with stride 1 that gains: its
// channels fill vectors, its tiles are mostly full of results, and enough tiles
// share the transformed kernels, which are four times as large as the plain;
// more of them where the kernels are not stable but transformed with each run.
bool SuitsWinograd(const Conv2dAttributes& conv, const Value& x, const Value& w,
                   const Value& y, bool stable);
// The tiles of `x` from which those of `y` follow.
WinogradTiles TilesOf(const Value& x, const Value& y, int64_t begin_y,
                      int64_t begin_x);

}  // namespace gpupool::engine
