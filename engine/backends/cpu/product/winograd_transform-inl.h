// The linear maps of Winograd's algorithm F(4x4, 3x3). A vector holds one cell
// of as many channels as it has lanes. Along one axis, with the points 0, a,
// -a, b, -b and infinity:
// - The value at point p is sum_i p^i x_i. This is matrix A. G is the same with
//   the scale 1 / N_p, where N_p is the product of (p - q) over the other
//   points q.
// - Row p of B^T holds the coefficients of the product of (x - q) over the
//   other points q.
#if defined(GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_TRANSFORM_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_TRANSFORM_INL_H_
#undef GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_TRANSFORM_INL_H_
#else
#define GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_TRANSFORM_INL_H_
#endif

#include <cstdint>

#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/cpu/product/winograd.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

constexpr double kA1 = kWinogradA, kA2 = kA1 * kA1, kA3 = kA2 * kA1;
constexpr double kB1 = kWinogradB, kB2 = kB1 * kB1, kB3 = kB2 * kB1;
constexpr double kScale0 = 1 / (kA2 * kB2);
constexpr double kScaleA = 1 / (2 * kA2 * (kA2 - kB2));
constexpr double kScaleB = 1 / (2 * kB2 * (kB2 - kA2));

HWY_INLINE FloatVector Constant(double number) {
  return hn::Set(FloatTag(), static_cast<float>(number));
}

// B^T, for a window.
struct WindowLine {
  static constexpr int kIn = 6, kOut = 6;
  static HWY_INLINE void Apply(const FloatVector* x, FloatVector* y) {
    const FloatVector product = Constant(kA2 * kB2);
    const FloatVector sum = Constant(kA2 + kB2);
    const FloatVector a = Constant(kA1), b = Constant(kB1);
    const FloatVector even_a = hn::NegMulAdd(Constant(kB2), x[2], x[4]);
    const FloatVector odd_a = hn::NegMulAdd(Constant(kB2), x[1], x[3]);
    const FloatVector even_b = hn::NegMulAdd(Constant(kA2), x[2], x[4]);
    const FloatVector odd_b = hn::NegMulAdd(Constant(kA2), x[1], x[3]);
    y[0] = hn::MulAdd(product, x[0], hn::NegMulAdd(sum, x[2], x[4]));
    y[1] = hn::MulAdd(a, odd_a, even_a);
    y[2] = hn::NegMulAdd(a, odd_a, even_a);
    y[3] = hn::MulAdd(b, odd_b, even_b);
    y[4] = hn::NegMulAdd(b, odd_b, even_b);
    y[5] = hn::MulAdd(product, x[1], hn::NegMulAdd(sum, x[3], x[5]));
  }
};

// A^T, for a tile of results.
struct ResultLine {
  static constexpr int kIn = 6, kOut = 4;
  static HWY_INLINE void Apply(const FloatVector* x, FloatVector* y) {
    const FloatVector sum_a = hn::Add(x[1], x[2]);
    const FloatVector sum_b = hn::Add(x[3], x[4]);
    const FloatVector rest_a = hn::Sub(x[1], x[2]);
    const FloatVector rest_b = hn::Sub(x[3], x[4]);
    y[0] = hn::Add(x[0], hn::Add(sum_a, sum_b));
    y[1] = hn::MulAdd(Constant(kA1), rest_a, hn::Mul(Constant(kB1), rest_b));
    y[2] = hn::MulAdd(Constant(kA2), sum_a, hn::Mul(Constant(kB2), sum_b));
    y[3] = hn::MulAdd(Constant(kA3), rest_a,
                      hn::MulAdd(Constant(kB3), rest_b, x[5]));
  }
};

// A, for the gradient of a tile of results.
struct ResultGradLine {
  static constexpr int kIn = 4, kOut = 6;
  static HWY_INLINE void Apply(const FloatVector* x, FloatVector* y) {
    const FloatVector even_a = hn::MulAdd(Constant(kA2), x[2], x[0]);
    const FloatVector odd_a = hn::MulAdd(Constant(kA2), x[3], x[1]);
    const FloatVector even_b = hn::MulAdd(Constant(kB2), x[2], x[0]);
    const FloatVector odd_b = hn::MulAdd(Constant(kB2), x[3], x[1]);
    y[0] = x[0];
    y[1] = hn::MulAdd(Constant(kA1), odd_a, even_a);
    y[2] = hn::NegMulAdd(Constant(kA1), odd_a, even_a);
    y[3] = hn::MulAdd(Constant(kB1), odd_b, even_b);
    y[4] = hn::NegMulAdd(Constant(kB1), odd_b, even_b);
    y[5] = x[3];
  }
};

// G, for a kernel.
struct KernelLine {
  static constexpr int kIn = 3, kOut = 6;
  static HWY_INLINE void Apply(const FloatVector* x, FloatVector* y) {
    const FloatVector even_a = hn::MulAdd(Constant(kA2 * kScaleA), x[2],
                                          hn::Mul(Constant(kScaleA), x[0]));
    const FloatVector even_b = hn::MulAdd(Constant(kB2 * kScaleB), x[2],
                                          hn::Mul(Constant(kScaleB), x[0]));
    y[0] = hn::Mul(Constant(kScale0), x[0]);
    y[1] = hn::MulAdd(Constant(kA1 * kScaleA), x[1], even_a);
    y[2] = hn::NegMulAdd(Constant(kA1 * kScaleA), x[1], even_a);
    y[3] = hn::MulAdd(Constant(kB1 * kScaleB), x[1], even_b);
    y[4] = hn::NegMulAdd(Constant(kB1 * kScaleB), x[1], even_b);
    y[5] = x[2];
  }
};

// G^T, for the gradient of a kernel.
struct KernelGradLine {
  static constexpr int kIn = 6, kOut = 3;
  static HWY_INLINE void Apply(const FloatVector* x, FloatVector* y) {
    const FloatVector sum_a = hn::Add(x[1], x[2]);
    const FloatVector sum_b = hn::Add(x[3], x[4]);
    const FloatVector rest_a = hn::Sub(x[1], x[2]);
    const FloatVector rest_b = hn::Sub(x[3], x[4]);
    y[0] = hn::MulAdd(
        Constant(kScaleA), sum_a,
        hn::MulAdd(Constant(kScaleB), sum_b, hn::Mul(Constant(kScale0), x[0])));
    y[1] = hn::MulAdd(Constant(kA1 * kScaleA), rest_a,
                      hn::Mul(Constant(kB1 * kScaleB), rest_b));
    y[2] = hn::MulAdd(Constant(kA2 * kScaleA), sum_a,
                      hn::MulAdd(Constant(kB2 * kScaleB), sum_b, x[5]));
  }
};

// The places of a square's vectors, row by row.
struct StridedCells {
  const float* first;
  int64_t stride;
  HWY_INLINE const float* operator()(int i) const { return first + i * stride; }
};
struct ScatteredCells {
  const float* const* cells;
  int64_t offset;
  HWY_INLINE const float* operator()(int i) const { return cells[i] + offset; }
};

// Applies a map along both axes: y = L x L^T. y has kOut x kOut vectors,
// `stride` numbers apart.
template <class Line, class Cells>
HWY_INLINE void TransformSquare(const Cells& x, float* y, int64_t stride) {
  constexpr int kIn = Line::kIn, kOut = Line::kOut;
  const FloatTag d;
  HWY_ALIGN float middle[kIn * kOut * kWinogradLanes];
  for (int column = 0; column < kIn; ++column) {
    FloatVector in[kIn], out[kOut];
#pragma GCC unroll 6
    for (int i = 0; i < kIn; ++i) in[i] = hn::LoadU(d, x(i * kIn + column));
    Line::Apply(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < kOut; ++i) {
      hn::Store(out[i], d, middle + (i * kIn + column) * kWinogradLanes);
    }
  }
  for (int row = 0; row < kOut; ++row) {
    FloatVector in[kIn], out[kOut];
#pragma GCC unroll 6
    for (int i = 0; i < kIn; ++i) {
      in[i] = hn::Load(d, middle + (row * kIn + i) * kWinogradLanes);
    }
    Line::Apply(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < kOut; ++i) {
      hn::StoreU(out[i], d, y + (row * kOut + i) * stride);
    }
  }
}

// Images cut into tiles. `zeros` holds a zero for each channel. It is read in
// place of cells outside of the image.
struct TiledImages {
  const float* x;
  const WinogradTiles& tiles;
  const float* zeros;
};

// Transforms the squares of Line::kIn cells at the tiles of the range into the
// rows [begin - first, ...) of the matrices.
template <class Line>
HWY_INLINE void TransformTiles(TiledImages images, WinogradTileRange range,
                               const WinogradMatrices& matrices, float* y) {
  constexpr int kIn = Line::kIn;
  const auto& [x, tiles, zeros] = images;
  const float* cells[kIn * kIn];
  for (int64_t tile = range.begin; tile < range.end; ++tile) {
    const int64_t column = tile % tiles.columns;
    const int64_t row = tile / tiles.columns % tiles.rows;
    const int64_t image = tile / tiles.columns / tiles.rows;
    const int64_t blocks = matrices.blocks() / tiles.taps;
    for (int64_t tap = 0; tap < tiles.taps; ++tap) {
      const int64_t slice = tiles.Slice(image, tap);
      for (int i = 0; i < kIn * kIn; ++i) {
        const int64_t at_y = row * kWinogradResults - tiles.begin_y + i / kIn;
        const int64_t at_x =
            column * kWinogradResults - tiles.begin_x + i % kIn;
        const bool inside = slice >= 0 && at_y >= 0 && at_y < tiles.height &&
                            at_x >= 0 && at_x < tiles.width;
        const int64_t cell = (slice * tiles.height + at_y) * tiles.width + at_x;
        cells[i] = inside ? x + cell * tiles.channels : zeros;
      }
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t at = tap * blocks + block;
        const int64_t width = matrices.width(at);
        float* to = y + matrices.offset(at) + (tile - range.first) * width;
        for (int64_t c = 0; c < width; c += FloatLanes()) {
          TransformSquare<Line>(
              ScatteredCells{cells, block * kWinogradBlock + c}, to + c,
              matrices.stride(at));
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_TRANSFORM_INL_H_
