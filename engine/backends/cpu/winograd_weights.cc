// The gradient of a convolution by its weights. A group of tiles of images and
// of result gradients is transformed by all threads; then each thread takes its
// share of the squares [channels, filters] of the weights: 36 products over the
// group's tiles, whose sums stay in the thread's cache, and the transform of
// the sums. Each weight is summed by one thread in a fixed order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/winograd_weights.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/parallel.h"
#include "engine/backends/cpu/simd-inl.h"
#include "engine/backends/cpu/winograd.h"
#include "engine/backends/cpu/winograd_gemm-inl.h"
#include "engine/backends/cpu/winograd_transform-inl.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_WEIGHTS_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_WEIGHTS_CC_
namespace gpupool::engine {

struct WinogradWeightPlan {
  WinogradTiles x, dy;
  int64_t group = 0;     // tiles that are transformed at a time
  int64_t channels = 0;  // of x, in a square of weights
  int64_t panel = 0;     // filters in a square of weights

  WinogradMatrices images() const { return {x.channels, group}; }
  WinogradMatrices grads() const { return {dy.channels, group}; }
  int64_t panels() const { return (dy.channels + panel - 1) / panel; }
  int64_t squares() const {
    return (x.channels + channels - 1) / channels * panels();
  }
  // Numbers from one frequency's sums to the next.
  int64_t sum_stride() const { return channels * panel + kWinogradSkew; }
};

struct WinogradWeightBuffers {
  const float* x = nullptr;
  const float* dy = nullptr;
  float* dw = nullptr;
  float* db = nullptr;  // or null
  float* zeros = nullptr;
  float* images = nullptr;   // transformed
  float* grads = nullptr;    // transformed
  float* scratch = nullptr;  // of one thread: the sums of a square
};

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_WEIGHTS_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

int64_t SquareWidth() { return PanelColumns(); }

void TransformGroup(const WinogradWeightPlan& plan,
                    const WinogradWeightBuffers& at, int64_t first,
                    int64_t begin, int64_t end) {
  TransformTiles<WindowLine>(at.x, plan.x, at.zeros, first, begin, end,
                             plan.images(), at.images);
  TransformTiles<ResultGradLine>(at.dy, plan.dy, at.zeros, first, begin, end,
                                 plan.grads(), at.grads);
}

// Stores, or adds, the gradient of the kernels of `channels` channels, from
// `channel` on, and `columns` filters, from `filter` on.
void StoreSquare(const WinogradWeightPlan& plan, const float* sums,
                 int64_t channel, int64_t channels, int64_t filter,
                 int64_t columns, bool add, float* dw) {
  HWY_ALIGN float cells[9 * 2 * kWinogradLanes];
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t k = 0; k < columns; k += FloatLanes()) {
      TransformSquare<KernelGradLine>(
          StridedCells{sums + c * columns + k, plan.sum_stride()}, cells + k,
          columns);
    }
    for (int64_t k = 0; k < columns; ++k) {
      float* to = dw + ((filter + k) * plan.x.channels + channel + c) * 9;
      for (int i = 0; i < 9; ++i) {
        to[i] = add ? to[i] + cells[i * columns + k] : cells[i * columns + k];
      }
    }
  }
}

// Squares [begin, end), of which those with the same filters follow each other;
// the group holds `count` tiles.
void MultiplySquares(const WinogradWeightPlan& plan,
                     const WinogradWeightBuffers& at, int64_t count, bool add,
                     int64_t begin, int64_t end) {
  const WinogradMatrices images = plan.images();
  const WinogradMatrices grads = plan.grads();
  const int64_t rows = plan.squares() / plan.panels();
  for (int64_t square = begin; square < end; ++square) {
    const int64_t channel = square % rows * plan.channels;
    const int64_t filter = square / rows * plan.panel;
    const int64_t block = channel / kWinogradBlock;
    const int64_t grad_block = filter / kWinogradBlock;
    const int64_t channels = std::min(plan.channels, plan.x.channels - channel);
    const int64_t columns = std::min(plan.panel, plan.dy.channels - filter);
    const float* a =
        at.images + images.offset(block) + channel % kWinogradBlock;
    const float* b =
        at.grads + grads.offset(grad_block) + filter % kWinogradBlock;
    const PanelProduct product{
        channels, count, 1, images.width(block), grads.width(grad_block),
        columns,  false};
    for (int f = 0; f < kWinogradFrequencies; ++f) {
      MultiplyPanel(product, columns, a + f * images.stride(block),
                    b + f * grads.stride(grad_block),
                    at.scratch + f * plan.sum_stride());
    }
    StoreSquare(plan, at.scratch, channel, channels, filter, columns, add,
                at.dw);
  }
}

// db[k] = sum over cells of dy, for the channels [begin, end).
void SumCells(const WinogradWeightPlan& plan, const float* dy, int64_t begin,
              int64_t end, float* db) {
  const FloatTag d;
  const int64_t step = plan.dy.channels;
  for (int64_t k = begin; k < end; k += FloatLanes()) {
    FloatVector sum = hn::Zero(d);
    for (int64_t row = 0; row < plan.dy.images * plan.dy.height; ++row) {
      const float* from = dy + row * plan.dy.width * step + k;
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

HWY_EXPORT(SquareWidth);
HWY_EXPORT(TransformGroup);
HWY_EXPORT(MultiplySquares);
HWY_EXPORT(SumCells);

constexpr int64_t kGroupBytes = 16 << 20;  // of transformed tiles

int64_t Aligned(int64_t numbers) {
  return (numbers + kWinogradLanes - 1) / kWinogradLanes * kWinogradLanes;
}

class WinogradWeightKernel : public Kernel {
 public:
  WinogradWeightKernel(const WinogradWeightPlan& plan, int threads, bool bias)
      : plan_(plan), threads_(threads), bias_(bias) {}

  uint64_t workspace_bytes() const override {
    return static_cast<uint64_t>(zeros() + Aligned(plan_.images().size()) +
                                 Aligned(plan_.grads().size()) +
                                 threads_ * scratch()) *
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
    at_.images = at_.zeros + zeros();
    at_.grads = at_.images + Aligned(plan_.images().size());
    at_.scratch = at_.grads + Aligned(plan_.grads().size());
    return absl::OkStatus();
  }

  absl::Status Run() override {
    std::fill_n(at_.zeros, zeros(), 0.0f);
    const int64_t tiles = plan_.x.count();
    for (int64_t first = 0; first < tiles; first += plan_.group) {
      RunGroup(first, std::min(plan_.group, tiles - first));
    }
    if (!bias_) return absl::OkStatus();
    ParallelFor(threads_, plan_.dy.channels, kWinogradLanes,
                [&](int64_t begin, int64_t end) {
                  sum_cells_(plan_, at_.dy, begin, end, at_.db);
                });
    return absl::OkStatus();
  }

 private:
  void RunGroup(int64_t first, int64_t count) {
    ParallelFor(threads_, count, 1, [&](int64_t begin, int64_t end) {
      transform_(plan_, at_, first, first + begin, first + end);
    });
    ParallelParts(threads_, plan_.squares(), 1,
                  [&](int thread, int64_t begin, int64_t end) {
                    WinogradWeightBuffers at = at_;
                    at.scratch += thread * scratch();
                    multiply_(plan_, at, count, first > 0, begin, end);
                  });
  }

  // Sizes of parts of the workspace, in numbers.
  int64_t zeros() const {
    return std::max(plan_.x.channels, plan_.dy.channels);
  }
  int64_t scratch() const {
    return Aligned(kWinogradFrequencies * plan_.sum_stride());
  }

  const WinogradWeightPlan plan_;
  const int threads_;
  const bool bias_;
  WinogradWeightBuffers at_;
  decltype(HWY_DYNAMIC_DISPATCH(TransformGroup)) transform_ =
      HWY_DYNAMIC_DISPATCH(TransformGroup);
  decltype(HWY_DYNAMIC_DISPATCH(MultiplySquares)) multiply_ =
      HWY_DYNAMIC_DISPATCH(MultiplySquares);
  decltype(HWY_DYNAMIC_DISPATCH(SumCells)) sum_cells_ =
      HWY_DYNAMIC_DISPATCH(SumCells);
};

WinogradWeightPlan PlanOf(const Conv2dAttributes& conv, const Value& x,
                          const Value& dy, int threads) {
  WinogradWeightPlan plan;
  plan.x = TilesOf(x, dy, conv.padding.begin.h, conv.padding.begin.w);
  plan.dy = TilesOf(dy, dy, 0, 0);
  plan.group = plan.x.group(x.shape[1] + dy.shape[1], kGroupBytes);
  plan.panel = HWY_DYNAMIC_DISPATCH(SquareWidth)();
  plan.channels = kWinogradBlock;
  while (plan.channels > kWinogradLanes && plan.squares() < threads) {
    plan.channels /= 2;
  }
  return plan;
}

}  // namespace

KernelOr MakeWinogradWeightGrad(const CompileRequest& request,
                                const CpuContext& context) {
  const auto& attributes = request.node.get<Conv2dGradAttributes>();
  const Value& dy = InputOf(request, 0);
  const Value& x = InputOf(request, 1);
  const Value& dw = OutputOf(request, 0);
  if (!SuitsWinograd(attributes.conv, x, dw, dy)) return nullptr;
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  return std::make_unique<WinogradWeightKernel>(
      PlanOf(attributes.conv, x, dy, threads), threads, attributes.bias_grad);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
