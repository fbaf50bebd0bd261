// Global average pools and their gradient. The split of a sum depends only on
// the size of the image, so a mean's bits depend on neither batch nor threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/image/global_pool.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <algorithm>
#include <cstdint>

#include "engine/backends/cpu/image/planes.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/function_kernel.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_GLOBAL_POOL_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_GLOBAL_POOL_CC_
namespace gpupool::engine {

// Parts of a channels-last image that are summed separately. Threads get parts,
// since the cells of a part were most likely written by the same thread.
constexpr int64_t kMostParts = 8;

// Sums `cells` cells of all channels of a channels-last image. `x` points to
// the first of them.
using SumChannels = void (*)(int64_t channels, int64_t cells, const float* x,
                             float* sums);

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_GLOBAL_POOL_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Sums kVectors vectors of channels. The sums stay in registers.
template <int kVectors>
HWY_INLINE void SumVectors(int64_t channels, int64_t cells, const float* x,
                           float* sums) {
  const FloatTag d;
  const int64_t lanes = FloatLanes();
  FloatVector sum[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t i = 0; i < cells; ++i, x += channels) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::Add(sum[v], hn::LoadU(d, x + v * lanes));
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + v * lanes);
}

void SumAllChannels(int64_t channels, int64_t cells, const float* x,
                    float* sums) {
  const int64_t lanes = FloatLanes();
  int64_t c = 0;
  for (; c + 8 * lanes <= channels; c += 8 * lanes) {
    SumVectors<8>(channels, cells, x + c, sums + c);
  }
  for (; c + 2 * lanes <= channels; c += 2 * lanes) {
    SumVectors<2>(channels, cells, x + c, sums + c);
  }
  for (; c + lanes <= channels; c += lanes) {
    SumVectors<1>(channels, cells, x + c, sums + c);
  }
  for (; c < channels; ++c) {
    sums[c] = 0;
    for (int64_t i = 0; i < cells; ++i) sums[c] += x[i * channels + c];
  }
}

SumChannels FindSumChannels() { return SumAllChannels; }

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(FindSumChannels);

// Averages channels-last images.
KernelOr AverageCells(const Planes& planes, int threads) {
  const SumChannels sum_channels = HWY_DYNAMIC_DISPATCH(FindSumChannels)();
  const int64_t parts = std::min(kMostParts, planes.area);
  const int64_t channels = planes.channels;
  const auto sum = [=](const KernelArguments& at, int64_t item) {
    const int64_t part = item % parts;
    const int64_t begin = planes.area * part / parts;
    const int64_t end = planes.area * (part + 1) / parts;
    const int64_t cell = item / parts * planes.area + begin;
    sum_channels(channels, end - begin, at.in(0) + cell * channels,
                 at.workspace() + item * channels);
  };
  const float scale = 1.0f / static_cast<float>(planes.area);
  const auto join = [=](const KernelArguments& at, int64_t image) {
    const float* sums = at.workspace() + image * parts * channels;
    float* y = at.out(0) + image * channels;
    std::copy(sums, sums + channels, y);
    for (int64_t part = 1; part < parts; ++part) {
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) y[c] += sums[part * channels + c];
    }
    for (int64_t c = 0; c < channels; ++c) y[c] *= scale;
  };
  const int64_t items = planes.images * parts;
  return MakeKernel(
      [=](const KernelArguments& at) {
        ParallelFor(threads, items, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum(at, i);
        });
        for (int64_t i = 0; i < planes.images; ++i) join(at, i);
      },
      static_cast<uint64_t>(items * channels) * sizeof(float));
}

// Averages images whose planes follow each other.
KernelOr AveragePlanes(const Planes& planes, int threads) {
  const float scale = 1.0f / static_cast<float>(planes.area);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, planes.images * planes.channels, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) {
                    const float* x = at.in(0) + p * planes.area;
                    float sum = 0;
#pragma omp simd reduction(+ : sum)
                    for (int64_t i = 0; i < planes.area; ++i) sum += x[i];
                    at.out(0)[p] = sum * scale;
                  }
                });
  });
}

// Spreads the gradient of a mean over its cells.
KernelOr SpreadMeans(const Planes& planes, int threads) {
  const float scale = 1.0f / static_cast<float>(planes.area);
  const bool channels_last = planes.channel_stride == 1;
  const int64_t channels = planes.channels;
  const auto cell = [=](const float* dy, float* dx) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) dx[c] = dy[c] * scale;
  };
  return MakeKernel([=](const KernelArguments& at) {
    const int64_t rows =
        planes.images * (channels_last ? planes.area : channels);
    ParallelFor(threads, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (channels_last) {
          cell(at.in(0) + i / planes.area * channels, at.out(0) + i * channels);
        } else {
          float* dx = at.out(0) + i * planes.area;
          std::fill(dx, dx + planes.area, at.in(0)[i] * scale);
        }
      }
    });
  });
}

}  // namespace

KernelOr MakeGlobalPool(const CompileRequest& request,
                        const CpuContext& context) {
  const bool forward = request.node.op == Op::kGlobalAvgPool;
  const Value& x = forward ? InputOf(request, 0) : OutputOf(request, 0);
  const Planes planes(x.shape, x.layout);
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  if (!forward) return SpreadMeans(planes, threads);
  return x.layout == Layout::kChannelsLast ? AverageCells(planes, threads)
                                           : AveragePlanes(planes, threads);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
