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
  return w.rank() == 4 && w[2] == 3 && w[3] == 3 &&
         conv.stride == Extent{1, 1} && conv.dilation == Extent{1, 1} &&
         conv.groups == 1;
}

}  // namespace

bool SuitsWinograd(const Conv2dAttributes& conv,
                   const ConvolutionValues& values, bool stable) {
  const auto& [x, w, y] = values;
  if (x.dtype != DType::kFloat32 || !HasDenseWindow(conv, w.shape) ||
      x.layout != Layout::kChannelsLast || y.layout != Layout::kChannelsLast) {
    return false;
  }
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t channels = w.shape[axis];
    if (channels < kLeastChannels || channels % kWinogradLanes != 0) {
      return false;
    }
  }
  const WinogradTiles tiles = TilesOf(x, y, 0, 0);
  const int64_t of_image = tiles.rows * tiles.columns;
  const bool enough =
      stable ? of_image >= kLeastTilesOfImage : tiles.count() >= kLeastTiles;
  return enough && y.shape[2] * y.shape[3] >= of_image * kLeastResults;
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

WinogradTiles TilesOf(const Value& x, const Value& y, int64_t begin_y,
                      int64_t begin_x) {
  const auto count = [](int64_t results) {
    return (results + kWinogradResults - 1) / kWinogradResults;
  };
  WinogradTiles tiles;
  tiles.images = x.shape[0];
  tiles.channels = x.shape[1];
  tiles.height = x.shape[2];
  tiles.width = x.shape[3];
  tiles.rows = count(y.shape[2]);
  tiles.columns = count(y.shape[3]);
  tiles.begin_y = begin_y;
  tiles.begin_x = begin_x;
  return tiles;
}

}  // namespace gpupool::engine
