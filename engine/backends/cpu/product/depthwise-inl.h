// The loops of depthwise convolutions over channels-last images: each channel
// has a window of its own. A vector holds neighbouring channels of a cell.
#if defined(GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_INL_H_
#undef GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_INL_H_
#else
#define GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "engine/backends/cpu/kernel/activation-inl.h"
#include "engine/backends/cpu/product/depthwise.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// The results of a row that are computed together. With the cells that they
// share and a weight they fill the registers. The heights and widths of most
// images are multiples of 7.
constexpr int kRun = HWY_TARGET <= HWY_AVX3 ? 7 : 4;

// The place of a run of results: `count` columns from `column` on, and `lanes`
// channels from `channel` on.
struct DepthwiseRun {
  int64_t image, row, column, count;
  int64_t channel, lanes;
};

// Loads a vector of channels, or the last ones of a cell.
template <bool kWhole>
HWY_INLINE FloatVector LoadChannels(const float* from, int64_t lanes) {
  if constexpr (kWhole) return hn::LoadU(FloatTag(), from);
  return LoadPart(from, lanes, 0.0f);
}

// Adds up the run's windows. Cells outside of the image count as 0; with
// kInside there are none.
template <int kKernel, int kStride, bool kInside, bool kWhole>
HWY_INLINE void SumWindows(const DepthwisePlan& p, const DepthwiseBuffers& at,
                           const DepthwiseRun& run, FloatVector* sum) {
  constexpr int kCells = (kRun - 1) * kStride + kKernel;
  const int64_t channels = p.channels;
  const int64_t x = run.column * kStride - p.begin_x;
  const int64_t y = run.row * kStride - p.begin_y;
  const int64_t end = std::min<int64_t>(kKernel, p.height - y);
  for (int64_t i = std::max<int64_t>(0, -y); i < end; ++i) {
    const int64_t cell = (run.image * p.height + y + i) * p.width + x;
    const float* from = at.x + cell * channels + run.channel;
    const float* w = at.w + i * kKernel * channels + run.channel;
    FloatVector cells[kCells];
#pragma GCC unroll 20
    for (int c = 0; c < kCells; ++c) {
      if (kInside || (x + c >= 0 && x + c < p.width)) {
        cells[c] = LoadChannels<kWhole>(from + c * channels, run.lanes);
      } else {
        cells[c] = hn::Zero(FloatTag());
      }
    }
#pragma GCC unroll 7
    for (int k = 0; k < kKernel; ++k) {
      const FloatVector weight =
          LoadChannels<kWhole>(w + k * channels, run.lanes);
#pragma GCC unroll 7
      for (int r = 0; r < kRun; ++r) {
        sum[r] = hn::MulAdd(cells[r * kStride + k], weight, sum[r]);
      }
    }
  }
}

// Adds the residual to one result, applies the activation and stores it.
HWY_INLINE void FinishResult(const DepthwisePlan& p, const DepthwiseBuffers& at,
                             FloatVector v, int64_t place, int64_t lanes) {
  if (at.residual != nullptr) {
    v = hn::Add(v, LoadPart(at.residual + place, lanes, 0.0f));
  }
  StorePart(Activate(p.epilogue, v), at.y + place, lanes);
}

template <int kKernel, int kStride, bool kInside, bool kWhole>
HWY_INLINE void ConvolveRun(const DepthwisePlan& p, const DepthwiseBuffers& at,
                            const DepthwiseRun& run) {
  const FloatTag d;
  FloatVector sum[kRun];
  const FloatVector bias =
      at.bias != nullptr
          ? LoadChannels<kWhole>(at.bias + run.channel, run.lanes)
          : hn::Zero(d);
#pragma GCC unroll 7
  for (int r = 0; r < kRun; ++r) sum[r] = bias;
  SumWindows<kKernel, kStride, kInside, kWhole>(p, at, run, sum);
  const int64_t cell = (run.image * p.rows + run.row) * p.columns + run.column;
  const int64_t to = cell * p.channels + run.channel;
  if (kWhole && run.count == kRun && p.end != DepthwiseEnd::kOther) {
    if (p.end == DepthwiseEnd::kRelu) {
#pragma GCC unroll 7
      for (int r = 0; r < kRun; ++r) sum[r] = hn::Max(sum[r], hn::Zero(d));
    } else if (p.end == DepthwiseEnd::kSilu) {
#pragma GCC unroll 7
      for (int r = 0; r < kRun; ++r) sum[r] = SiluOf(sum[r]);
    }
#pragma GCC unroll 7
    for (int r = 0; r < kRun; ++r) {
      hn::StoreU(sum[r], d, at.y + to + r * p.channels);
    }
    return;
  }
  // With an index that is only known here, the sums would lie in memory above,
  // too.
  HWY_ALIGN float sums[kRun * 16];
#pragma GCC unroll 7
  for (int r = 0; r < kRun; ++r) hn::Store(sum[r], d, sums + r * 16);
  for (int64_t r = 0; r < run.count; ++r) {
    FinishResult(p, at, hn::Load(d, sums + r * 16), to + r * p.channels,
                 run.lanes);
  }
}

template <int kKernel, int kStride>
HWY_INLINE void ConvolveAnyRun(const DepthwisePlan& p,
                               const DepthwiseBuffers& at,
                               const DepthwiseRun& run) {
  const int64_t x = run.column * kStride - p.begin_x;
  const bool inside = x >= 0 && x + (kRun - 1) * kStride + kKernel <= p.width;
  if (run.lanes < FloatLanes()) {
    ConvolveRun<kKernel, kStride, false, false>(p, at, run);
  } else if (inside) {
    ConvolveRun<kKernel, kStride, true, true>(p, at, run);
  } else {
    ConvolveRun<kKernel, kStride, false, true>(p, at, run);
  }
}

// Computes items [begin, end) of the rows, counted over images, blocks of
// channels and rows. The rows of a block follow each other, so that they find
// the cells that they share in the cache.
template <int kKernel, int kStride>
void ConvolveRows(const DepthwisePlan& p, const DepthwiseBuffers& at,
                  int64_t begin, int64_t end) {
  const int64_t width = p.block_channels();
  for (int64_t item = begin; item < end; ++item) {
    const int64_t block = item / p.rows % p.blocks();
    const int64_t first = block * width;
    const int64_t last = std::min(first + width, p.channels);
    DepthwiseRun run{.image = item / p.rows / p.blocks(), .row = item % p.rows};
    for (run.column = 0; run.column < p.columns; run.column += kRun) {
      run.count = std::min<int64_t>(kRun, p.columns - run.column);
      for (run.channel = first; run.channel < last;
           run.channel += FloatLanes()) {
        run.lanes = std::min<int64_t>(FloatLanes(), last - run.channel);
        ConvolveAnyRun<kKernel, kStride>(p, at, run);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_INL_H_
