// Chooses convolutions for Winograd's algorithm and cuts them into tiles.
#include "engine/backends/cpu/product/winograd.h"

namespace gpupool::engine {
namespace {

// Measured against oneDNN's direct convolutions, on ResNet-18 and on chains of
// four convolutions of one size, with 512 channels:
// - Stable kernels take 1.3 times as long with 4 tiles and 0.75 times with 8.
//   Most batches of images with 4 tiles have 8. Stable kernels serve, so only
//   the tiles of one image count: an answer has the same bits in every batch.
// - Training steps take up to twice as long with 8 tiles, about as long with
//   16, and less from 32 on.
constexpr int64_t kLeastChannels = 32;
constexpr int64_t kLeastTilesOfImage = 4;
constexpr int64_t kLeastTiles = 32;
constexpr int64_t kLeastGroup = 16;   // fewer tiles use the kernels too rarely
constexpr int64_t kLeastResults = 8;  // average of the 16 of a tile

bool HasDenseWindow(const Conv2dAttributes& conv, const Shape& w) {
  const Extent one{1, 1, w.rank() == 5 ? 1 : 0};
  return w[w.rank() - 2] == 3 && w[w.rank() - 1] == 3 && conv.stride == one &&
         conv.dilation == one && conv.groups == 1;
}

// Returns whether the value lies in memory as the makers expect.
bool HasRightLayout(const Value& value) {
  return value.shape.rank() == 5 || value.layout == Layout::kChannelsLast;
}

}  // namespace

bool SuitsWinograd(const Conv2dAttributes& conv,
                   const ConvolutionValues& values, bool stable) {
  const auto& [x, w, y] = values;
  if (x.dtype != DType::kFloat32 || !HasDenseWindow(conv, w.shape) ||
      !HasRightLayout(x) || !HasRightLayout(y)) {
    return false;
  }
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t channels = w.shape[axis];
    if (channels < kLeastChannels ||
        channels % (w.shape.rank() == 5 ? kWinogradBlock : kWinogradLanes) !=
            0) {
      return false;
    }
  }
  const WinogradTiles tiles = TilesOf(x, y, {0, 0});
  const int64_t of_image = tiles.rows * tiles.columns;
  const bool enough =
      stable ? of_image >= kLeastTilesOfImage : tiles.count() >= kLeastTiles;
  const int rank = y.shape.rank();
  return enough &&
         y.shape[rank - 2] * y.shape[rank - 1] >= of_image * kLeastResults;
}

int64_t WinogradTiles::group(int64_t channels, int64_t bytes,
                             int threads) const {
  const int64_t most =
      std::max(kLeastGroup, bytes / (kWinogradFrequencies * channels *
                                     static_cast<int64_t>(sizeof(float))));
  const auto divide = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t groups = divide(divide(count(), most), threads) * threads;
  return divide(count(), groups);
}

int64_t TapsOf(const Shape& weights) {
  return weights.rank() == 5 ? weights[2] : 1;
}

WinogradTiles TilesOf(const Value& x, const Value& y, const Extent& begin) {
  const auto count = [](int64_t results) {
    return (results + kWinogradResults - 1) / kWinogradResults;
  };
  WinogradTiles tiles;
  const int rank = x.shape.rank();
  if (rank == 5) {
    tiles.depth = x.shape[2];
    tiles.result_depth = y.shape[2];
    tiles.begin_z = begin.d;
  }
  tiles.images = x.shape[0] * tiles.result_depth;
  tiles.channels = x.shape[1];
  tiles.height = x.shape[rank - 2];
  tiles.width = x.shape[rank - 1];
  tiles.rows = count(y.shape[rank - 2]);
  tiles.columns = count(y.shape[rank - 1]);
  tiles.begin_y = begin.h;
  tiles.begin_x = begin.w;
  return tiles;
}

}  // namespace gpupool::engine
