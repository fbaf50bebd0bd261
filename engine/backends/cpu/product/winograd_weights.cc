// The gradient of a convolution by its weights. Each thread takes its share of
// the rectangles [channels, filters] of the weights. For each rectangle:
// 1. For a few tiles at a time, it transforms those channels of the images and
//    those filters of the results' gradients, and adds their 36 products to
//    sums.
// 2. At the end it transforms the sums, which stay in its cache.
//
// Transforming tiles again for each rectangle costs less than keeping them
// outside of the cache. One thread sums up each weight, in a fixed order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/product/winograd_weights.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <type_traits>
#include <utility>

#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/cpu/product/volume_kernel.h"
#include "engine/backends/cpu/product/winograd.h"
#include "engine/backends/cpu/product/winograd_gemm-inl.h"
#include "engine/backends/cpu/product/winograd_transform-inl.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_WEIGHTS_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_WEIGHTS_CC_
namespace gpupool::engine {

struct WinogradWeightPlan {
  WinogradTiles x, dy;
  int64_t group = 0;     // tiles that are transformed at a time
  int64_t channels = 0;  // of x, in a rectangle of weights
  int64_t filters = 0;   // in a rectangle of weights
  int64_t taps = 1;      // of a window; each has rectangles of its own

  WinogradMatrices images() const { return {channels, group}; }
  WinogradMatrices grads() const { return {filters, group}; }
  int64_t rows() const { return (x.channels + channels - 1) / channels; }
  int64_t rectangles() const {
    return (dy.channels + filters - 1) / filters * rows() * taps;
  }
  // Returns the distance in numbers between the sums of two frequencies.
  int64_t sum_stride() const { return channels * filters + kWinogradSkew; }
  int64_t sum_size() const { return kWinogradFrequencies * sum_stride(); }
};

struct WinogradWeightBuffers {
  const float* x = nullptr;
  const float* dy = nullptr;
  float* dw = nullptr;
  float* db = nullptr;  // or null
  float* zeros = nullptr;
  float* scratch = nullptr;  // of one thread: sums, images, gradients
};

// A rectangle of the weights at one tap.
struct WinogradRectangle {
  int64_t tap = 0;
  int64_t channel = 0, channels = 0;
  int64_t filter = 0, filters = 0;
};

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_WEIGHTS_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Stores the gradient of a rectangle's kernels, a few channels at a time so
// that whole cache lines are written.
void StoreRectangle(const WinogradWeightPlan& plan, const float* sums,
                    const WinogradRectangle& part, float* dw) {
  constexpr int64_t kChannels = 8;
  HWY_ALIGN float cells[kChannels * 9 * kWinogradBlock];
  for (int64_t first = 0; first < part.channels; first += kChannels) {
    for (int64_t c = 0; c < kChannels; ++c) {
      for (int64_t k = 0; k < part.filters; k += FloatLanes()) {
        TransformSquare<KernelGradLine>(
            StridedCells{sums + (first + c) * part.filters + k,
                         plan.sum_stride()},
            cells + c * 9 * part.filters + k, part.filters);
      }
    }
    for (int64_t k = 0; k < part.filters; ++k) {
      float* to =
          dw + ((part.filter + k) * plan.x.channels + part.channel + first) *
                   9 * plan.taps;
      for (int64_t c = 0; c < kChannels; ++c) {
        float* kernel = to + (c * plan.taps + part.tap) * 9;
        for (int64_t i = 0; i < 9; ++i) {
          kernel[i] = cells[(c * 9 + i) * part.filters + k];
        }
      }
    }
  }
}

// Adds the products of the group of tiles from `first` on to the sums.
void AddTiles(const WinogradWeightPlan& plan, const WinogradWeightBuffers& at,
              const WinogradRectangle& part, int64_t first) {
  const int64_t last = std::min(first + plan.group, plan.x.count());
  const WinogradTileRange tiles{.first = first, .begin = first, .end = last};
  const WinogradMatrices images{part.channels, plan.group};
  const WinogradMatrices grads{part.filters, plan.group};
  float* a = at.scratch + plan.sum_size();
  float* b = a + plan.images().size();
  WinogradTiles x = plan.x;
  x.begin_z -= part.tap;
  TransformTiles<WindowLine>({at.x + part.channel, x, at.zeros}, tiles, images,
                             a);
  TransformTiles<ResultGradLine>({at.dy + part.filter, plan.dy, at.zeros},
                                 tiles, grads, b);
  const PanelProduct product{part.channels,   last - first,   1,
                             images.width(0), grads.width(0), part.filters,
                             first > 0};
  for (int f = 0; f < kWinogradFrequencies; ++f) {
    for (int64_t k = 0; k < part.filters; k += PanelColumns()) {
      MultiplyPanel(product, std::min(PanelColumns(), part.filters - k),
                    a + f * images.stride(0), b + f * grads.stride(0) + k,
                    at.scratch + f * plan.sum_stride() + k);
    }
  }
}

// Computes rectangles [begin, end). Those with the same filters follow each
// other.
void MultiplyRectangles(const WinogradWeightPlan& plan,
                        const WinogradWeightBuffers& at, int64_t begin,
                        int64_t end) {
  const int64_t tiles = plan.x.count();
  for (int64_t i = begin; i < end; ++i) {
    WinogradRectangle part;
    part.tap = i % plan.taps;
    part.channel = i / plan.taps % plan.rows() * plan.channels;
    part.filter = i / plan.taps / plan.rows() * plan.filters;
    part.channels = std::min(plan.channels, plan.x.channels - part.channel);
    part.filters = std::min(plan.filters, plan.dy.channels - part.filter);
    for (int64_t first = 0; first < tiles; first += plan.group) {
      AddTiles(plan, at, part, first);
    }
    StoreRectangle(plan, at.scratch, part, at.dw);
  }
}

// Computes db[k] = sum over cells of dy, for the channels [begin, end).
void SumCells(const WinogradWeightPlan& plan, const WinogradWeightBuffers& at,
              int64_t begin, int64_t end) {
  const FloatTag d;
  const float* dy = at.dy;
  float* db = at.db;
  const int64_t step = plan.dy.channels;
  for (int64_t k = begin; k < end; k += FloatLanes()) {
    FloatVector sum = hn::Zero(d);
    for (int64_t row = 0; row < plan.dy.images * plan.dy.height; ++row) {
      const float* from = dy + row * plan.dy.width * step + k;
      // Each row of cells has its own sum, which keeps rounding errors small.
      FloatVector part = hn::Zero(d);
      for (int64_t i = 0; i < plan.dy.width; ++i) {
        part = hn::Add(part, hn::LoadU(d, from + i * step));
      }
      sum = hn::Add(sum, part);
    }
    hn::StoreU(sum, d, db + k);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(MultiplyRectangles);
HWY_EXPORT(SumCells);

// Most bytes of transformed tiles next to the sums. With more, the sums leave
// the cache. With fewer, the sums are read and written too often.
constexpr int64_t kWeightGroupBytes = 640 << 10;

int64_t AlignedNumbers(int64_t numbers) {
  return (numbers + kWinogradLanes - 1) / kWinogradLanes * kWinogradLanes;
}

class WinogradWeightKernel : public Kernel {
 public:
  WinogradWeightKernel(const WinogradWeightPlan& plan, int threads, bool bias)
      : plan_(plan), threads_(threads), bias_(bias) {}

  uint64_t workspace_bytes() const override {
    return static_cast<uint64_t>(zeros() + threads_ * scratch()) *
           sizeof(float);
  }

  absl::Status Bind(const KernelBuffers& buffers) override {
    const auto numbers = [](std::byte* at) {
      return reinterpret_cast<float*>(at);
    };
    at_.dy = numbers(buffers.inputs[0]);
    at_.x = numbers(buffers.inputs[1]);
    at_.dw = numbers(buffers.outputs[0]);
    at_.db = bias_ ? numbers(buffers.outputs[1]) : nullptr;
    at_.zeros = numbers(buffers.workspace);
    at_.scratch = at_.zeros + zeros();
    return absl::OkStatus();
  }

  absl::Status Run() override {
    std::fill_n(at_.zeros, zeros(), 0.0f);
    ParallelParts(threads_, plan_.rectangles(), 1,
                  [&](int thread, int64_t begin, int64_t end) {
                    WinogradWeightBuffers at = at_;
                    at.scratch += thread * scratch();
                    multiply_(plan_, at, begin, end);
                  });
    if (!bias_) return absl::OkStatus();
    ParallelFor(threads_, plan_.dy.channels, kWinogradLanes,
                [&](int64_t begin, int64_t end) {
                  sum_cells_(plan_, at_, begin, end);
                });
    return absl::OkStatus();
  }

 private:
  // Return sizes of parts of the workspace in numbers. `scratch` is one
  // thread's.
  int64_t zeros() const {
    return std::max(plan_.x.channels, plan_.dy.channels);
  }
  int64_t scratch() const {
    return AlignedNumbers(plan_.sum_size() + plan_.images().size() +
                          plan_.grads().size());
  }

  const WinogradWeightPlan plan_;
  const int threads_;
  const bool bias_;
  WinogradWeightBuffers at_;
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(MultiplyRectangles))> multiply_ =
      HWY_DYNAMIC_DISPATCH(MultiplyRectangles);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(SumCells))> sum_cells_ =
      HWY_DYNAMIC_DISPATCH(SumCells);
};

// Makes rectangles as large as the cache allows, but at least one for each
// thread.
WinogradWeightPlan PlanOf(const Conv2dAttributes& conv,
                          const ConvolutionValues& values, int threads) {
  const auto& [x, dw, dy] = values;
  WinogradWeightPlan plan;
  plan.x = TilesOf(x, dy, conv.padding.begin);
  plan.dy = TilesOf(dy, dy, {0, 0});
  plan.taps = TapsOf(dw.shape);
  plan.channels = std::min(kWinogradBlock, plan.x.channels);
  plan.filters = std::min(kWinogradBlock, plan.dy.channels);
  while (plan.rectangles() < threads && plan.filters > 2 * kWinogradLanes) {
    plan.filters -= kWinogradLanes;
  }
  while (plan.rectangles() < threads && plan.channels > kWinogradLanes) {
    plan.channels -= kWinogradLanes;
  }
  plan.group = plan.x.group(plan.channels + plan.filters, kWeightGroupBytes, 1);
  return plan;
}

}  // namespace

KernelOr MakeWinogradWeightGrad(const CompileRequest& request,
                                const CpuContext& context) {
  const auto& attributes = request.node.get<Conv2dGradAttributes>();
  const Value& dy = InputOf(request, 0);
  const Value& x = InputOf(request, 1);
  const Value& dw = OutputOf(request, 0);
  const ConvolutionValues values{.x = x, .w = dw, .y = dy};
  if (!SuitsWinograd(attributes.conv, values, false)) return nullptr;
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  auto kernel = std::make_unique<WinogradWeightKernel>(
      PlanOf(attributes.conv, values, threads), threads, attributes.bias_grad);
  if (x.shape.rank() != 5) return kernel;
  return MakeOnVolumes(request, context, std::move(kernel));
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
