// Forward convolution and its gradient by images. Both try to read what they
// write from a thread's own cache.
//
// - Few kernels: they are transformed first. Then each thread takes its share
//   of the tiles, and each small group of tiles goes through all three steps.
// - Many kernels and few tiles: the threads transform a group of tiles
//   together. Then each takes its share of the panels of the results' channels,
//   transforms their kernels and multiplies.
//
// Stable weights are transformed once, in Prepare.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/product/winograd.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel/activation-inl.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/cpu/product/volume_kernel.h"
#include "engine/backends/cpu/product/winograd.h"
#include "engine/backends/cpu/product/winograd_gemm-inl.h"
#include "engine/backends/cpu/product/winograd_transform-inl.h"
#include "engine/base/align.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_CC_
namespace gpupool::engine {

// The sizes of one convolution. `weight_result` and `weight_channel` are the
// distances in numbers between the 3x3 kernels of neighbouring channels of the
// results and of the images.
struct WinogradPlan {
  WinogradTiles tiles;
  int64_t results = 0;  // channels
  int64_t result_height = 0, result_width = 0;
  int64_t weight_result = 0, weight_channel = 0;
  bool turned = false;  // whether kernels are rotated by 180 degrees
  Epilogue epilogue;
  // Whether each thread transforms its own tiles and convolves them in its own
  // cache, with kernels that were transformed before.
  bool local = false;
  int64_t group = 0;  // tiles that are transformed at a time
  int64_t part = 0;   // tiles that are multiplied at a time
  int64_t panel = 0;  // channels of the results in one product

  WinogradMatrices images() const { return {tiles.inputs(), group}; }
  int64_t panels() const { return (results + panel - 1) / panel; }
  int64_t columns(int64_t p) const {
    return std::min(panel, results - p * panel);
  }
  // Return the distance in numbers between the kernels of two frequencies, and
  // between their results.
  int64_t kernel_stride(int64_t block, int64_t p) const {
    return images().width(block) * columns(p) + kWinogradSkew;
  }
  int64_t result_stride() const { return part * panel + kWinogradSkew; }
  // Return the size of a panel's transformed kernels, and the offset of a block
  // in them.
  int64_t kernel_size() const {
    return kWinogradFrequencies *
           (tiles.inputs() * panel + images().blocks() * kWinogradSkew);
  }
  int64_t kernel_offset(int64_t block, int64_t p) const {
    return block * kWinogradFrequencies *
           (kWinogradBlock * columns(p) + kWinogradSkew);
  }
};

struct WinogradBuffers {
  const float* x = nullptr;
  const float* w = nullptr;
  const float* bias = nullptr;      // or null
  const float* residual = nullptr;  // or null
  float* y = nullptr;
  float* kernels = nullptr;  // transformed; null: made when needed
  float* zeros = nullptr;
  float* images = nullptr;    // transformed
  float* scratch = nullptr;   // of one thread: kernels, results
  float* products = nullptr;  // of one thread, in its scratch memory
};

// A thread's items [begin, end) of the work on the group of `count` tiles from
// `first` on.
struct WinogradItems {
  int64_t first = 0, count = 0;
  int64_t begin = 0, end = 0;
};

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_WINOGRAD_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

constexpr int64_t kGatheredChannels = 16;

int64_t PanelWidth() { return PanelColumns(); }

// Gathers the kernels of kGatheredChannels channels and a panel's results, as
// [channel, cell, result].
void GatherKernels(const WinogradPlan& plan, const float* w, int64_t columns,
                   float* to) {
  constexpr int64_t count = kGatheredChannels;
  const auto copy = [&](int64_t c, int64_t k) {
    const float* from = w + c * plan.weight_channel + k * plan.weight_result;
    float* cell = to + c * 9 * columns + k;
    if (plan.turned) {
      for (int i = 0; i < 9; ++i) cell[i * columns] = from[8 - i];
    } else {
      for (int i = 0; i < 9; ++i) cell[i * columns] = from[i];
    }
  };
  // Follows the shorter distance in the inner loop, so that cache lines are
  // used up.
  if (plan.weight_channel < plan.weight_result) {
    for (int64_t k = 0; k < columns; ++k) {
      for (int64_t c = 0; c < count; ++c) copy(c, k);
    }
  } else {
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t k = 0; k < columns; ++k) copy(c, k);
    }
  }
}

// A block of the images' channels at one tap, and a panel of the results'.
struct KernelBlock {
  int64_t block, panel;
};

// Transforms the kernels of a block and a panel, to 36 matrices [channels,
// results].
void TransformKernels(const WinogradPlan& plan, const float* w,
                      KernelBlock kernels, float* to) {
  const auto [block, panel] = kernels;
  HWY_ALIGN float cells[kGatheredChannels * 9 * 2 * kWinogradLanes];
  const int64_t columns = plan.columns(panel);
  const int64_t stride = plan.kernel_stride(block, panel);
  const int64_t taps = plan.tiles.taps;
  const int64_t blocks = plan.images().blocks() / taps;
  const int64_t tap = plan.turned ? taps - 1 - block / blocks : block / blocks;
  const float* from = w + tap * 9 +
                      block % blocks * kWinogradBlock * plan.weight_channel +
                      panel * plan.panel * plan.weight_result;
  for (int64_t first = 0; first < plan.images().width(block);
       first += kGatheredChannels) {
    GatherKernels(plan, from + first * plan.weight_channel, columns, cells);
    for (int64_t c = 0; c < kGatheredChannels; ++c) {
      for (int64_t k = 0; k < columns; k += FloatLanes()) {
        TransformSquare<KernelLine>(
            StridedCells{cells + c * 9 * columns + k, columns},
            to + (first + c) * columns + k, stride);
      }
    }
  }
}

void TransformPanels(const WinogradPlan& plan, const WinogradBuffers& at,
                     int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel) {
    for (int64_t block = 0; block < plan.images().blocks(); ++block) {
      float* to = at.kernels + panel * plan.kernel_size() +
                  plan.kernel_offset(block, panel);
      TransformKernels(plan, at.w, {block, panel}, to);
    }
  }
}

void TransformImages(const WinogradPlan& plan, const WinogradBuffers& at,
                     const WinogradTileRange& range) {
  TransformTiles<WindowLine>({at.x, plan.tiles, at.zeros}, range, plan.images(),
                             at.images);
}

// Stores one tile of results, for the channels of one vector from `channel` on.
HWY_INLINE void StoreResults(const WinogradPlan& plan,
                             const WinogradBuffers& at, int64_t tile,
                             int64_t channel, const float* cells) {
  const FloatTag d;
  const WinogradTiles& tiles = plan.tiles;
  const int64_t x = tile % tiles.columns * kWinogradResults;
  const int64_t y = tile / tiles.columns % tiles.rows * kWinogradResults;
  const int64_t image = tile / tiles.columns / tiles.rows;
  const int64_t rows =
      std::min<int64_t>(kWinogradResults, plan.result_height - y);
  const int64_t columns =
      std::min<int64_t>(kWinogradResults, plan.result_width - x);
  const FloatVector bias =
      at.bias != nullptr ? hn::LoadU(d, at.bias + channel) : hn::Zero(d);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t cell =
        (image * plan.result_height + y + row) * plan.result_width + x;
    const int64_t to = cell * plan.results + channel;
    for (int64_t i = 0; i < columns; ++i) {
      FloatVector v = hn::Add(
          bias,
          hn::Load(d, cells + (row * kWinogradResults + i) * kWinogradLanes));
      if (at.residual != nullptr) {
        v = hn::Add(v, hn::LoadU(d, at.residual + to + i * plan.results));
      }
      hn::StoreU(Activate(plan.epilogue, v), d, at.y + to + i * plan.results);
    }
  }
}

// Computes one panel of the results of a range of tiles.
void MultiplyTiles(const WinogradPlan& plan, const WinogradBuffers& at,
                   int64_t panel, const WinogradTileRange& range) {
  const auto [first, begin, end] = range;
  float* products = at.products;
  const WinogradMatrices images = plan.images();
  const int64_t columns = plan.columns(panel);
  for (int64_t block = 0; block < images.blocks(); ++block) {
    const int64_t width = images.width(block);
    const float* kernels = at.kernels;
    if (kernels != nullptr) {
      kernels += panel * plan.kernel_size() + plan.kernel_offset(block, panel);
    } else {
      TransformKernels(plan, at.w, {block, panel}, at.scratch);
      kernels = at.scratch;
    }
    const PanelProduct product{end - begin, width,   width,    1,
                               columns,     columns, block > 0};
    const float* a = at.images + images.offset(block) + (begin - first) * width;
    for (int f = 0; f < kWinogradFrequencies; ++f) {
      MultiplyPanel(product, columns, a + f * images.stride(block),
                    kernels + f * plan.kernel_stride(block, panel),
                    products + f * plan.result_stride());
    }
  }
  HWY_ALIGN float cells[kWinogradResults * kWinogradResults * kWinogradLanes];
  for (int64_t tile = begin; tile < end; ++tile) {
    for (int64_t k = 0; k < columns; k += FloatLanes()) {
      TransformSquare<ResultLine>(
          StridedCells{products + (tile - begin) * columns + k,
                       plan.result_stride()},
          cells, kWinogradLanes);
      StoreResults(plan, at, tile, panel * plan.panel + k, cells);
    }
  }
}

// Computes items of a group's work, panel by panel and part by part.
void MultiplyItems(const WinogradPlan& plan, const WinogradBuffers& buffers,
                   const WinogradItems& items) {
  const auto [first, count, begin, end] = items;
  const int64_t parts = (count + plan.part - 1) / plan.part;
  WinogradBuffers at = buffers;
  // Kernels that are made when needed lie before the products.
  at.products = at.scratch;
  if (at.kernels == nullptr) {
    at.products +=
        kWinogradFrequencies * (kWinogradBlock * plan.panel + kWinogradSkew);
  }
  for (int64_t item = begin; item < end; ++item) {
    const int64_t part = item % parts;
    MultiplyTiles(plan, at, item / parts,
                  {.first = first,
                   .begin = first + part * plan.part,
                   .end = first + std::min(count, (part + 1) * plan.part)});
  }
}

// Computes all panels of the results of the groups [begin, end), each in the
// thread's cache. The thread's scratch memory also holds the transformed
// images.
void ConvolveGroups(const WinogradPlan& plan, const WinogradBuffers& buffers,
                    int64_t begin, int64_t end) {
  WinogradBuffers at = buffers;
  at.images = at.scratch;
  at.products = at.scratch + plan.images().size();
  for (int64_t group = begin; group < end; ++group) {
    const int64_t first = group * plan.group;
    const int64_t last = std::min(first + plan.group, plan.tiles.count());
    const WinogradTileRange tiles{.first = first, .begin = first, .end = last};
    TransformImages(plan, at, tiles);
    for (int64_t panel = 0; panel < plan.panels(); ++panel) {
      MultiplyTiles(plan, at, panel, tiles);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(PanelWidth);
HWY_EXPORT(TransformPanels);
HWY_EXPORT(TransformImages);
HWY_EXPORT(MultiplyItems);
HWY_EXPORT(ConvolveGroups);

constexpr int64_t kGroupBytes = 8 << 20;  // of transformed images
constexpr int64_t kPartTiles = 136;
// Numbers (tiles or kernels, times channels) up to which one thread transforms
// alone, since starting a second one costs more.
constexpr int64_t kSerialNumbers = 8192;
// Most numbers of transformed kernels with which a thread can work from its
// cache, and most bytes of transformed images next to them.
constexpr int64_t kLocalKernels = 1 << 20;
constexpr int64_t kLocalBytes = 160 << 10;

int64_t Aligned(int64_t numbers) {
  return (numbers + kWinogradLanes - 1) / kWinogradLanes * kWinogradLanes;
}

class WinogradKernel : public Kernel {
 public:
  WinogradKernel(const WinogradPlan& plan, int threads, bool stable)
      : plan_(plan), threads_(threads), stable_(stable) {}

  uint64_t workspace_bytes() const override {
    return static_cast<uint64_t>(plan_.tiles.channels + kernels() + images() +
                                 threads_ * scratch()) *
           sizeof(float);
  }
  uint64_t resident_bytes() const override {
    return stable_ ? static_cast<uint64_t>(transformed()) * sizeof(float) : 0;
  }
  std::string resident_format() const override {
    return absl::StrCat("winograd 4x4 3x3/", plan_.panel, "/", plan_.results,
                        "/", plan_.tiles.channels, "/", plan_.tiles.taps, "/",
                        plan_.turned);
  }

  absl::Status Bind(const KernelBuffers& buffers) override {
    const auto numbers = [](std::byte* at) {
      return reinterpret_cast<float*>(at);
    };
    at_ = {};
    at_.x = numbers(buffers.inputs[0]);
    at_.w = numbers(buffers.inputs[1]);
    size_t next = 2;
    if (plan_.epilogue.bias) at_.bias = numbers(buffers.inputs[next++]);
    if (plan_.epilogue.residual) {
      at_.residual = numbers(buffers.inputs[next++]);
    }
    at_.y = numbers(buffers.outputs[0]);
    at_.zeros = numbers(buffers.workspace);
    float* after = at_.zeros + plan_.tiles.channels;
    if (stable_) at_.kernels = numbers(buffers.resident);
    if (kernels() > 0) at_.kernels = after;
    at_.images = after + kernels();
    at_.scratch = at_.images + images();
    return absl::OkStatus();
  }

  absl::Status Prepare() override {
    if (stable_) TransformAllKernels();
    return absl::OkStatus();
  }

  absl::Status Run() override {
    std::fill_n(at_.zeros, plan_.tiles.channels, 0.0f);
    if (kernels() > 0) TransformAllKernels();
    const int64_t tiles = plan_.tiles.count();
    if (plan_.local) {
      Share((tiles + plan_.group - 1) / plan_.group,
            [&](const WinogradBuffers& at, int64_t begin, int64_t end) {
              convolve_groups_(plan_, at, begin, end);
            });
      return absl::OkStatus();
    }
    for (int64_t first = 0; first < tiles; first += plan_.group) {
      RunGroup(first, std::min(plan_.group, tiles - first));
    }
    return absl::OkStatus();
  }

 private:
  // Calls body(buffers, begin, end) for each thread's share of `count` items.
  template <typename Body>
  void Share(int64_t count, const Body& body) {
    ParallelParts(threads_, count, 1,
                  [&](int thread, int64_t begin, int64_t end) {
                    WinogradBuffers at = at_;
                    at.scratch += thread * scratch();
                    body(at, begin, end);
                  });
  }

  // Returns the threads for transforming `count` tiles, or kernels of `count`
  // results.
  int ThreadsFor(int64_t count) const {
    return count * plan_.tiles.inputs() < kSerialNumbers ? 1 : threads_;
  }

  void TransformAllKernels() {
    const int threads = ThreadsFor(plan_.results);
    ParallelFor(threads, plan_.panels(), 1, [&](int64_t begin, int64_t end) {
      transform_panels_(plan_, at_, begin, end);
    });
  }

  void RunGroup(int64_t first, int64_t count) {
    ParallelFor(ThreadsFor(count), count, 1, [&](int64_t begin, int64_t end) {
      transform_images_(
          plan_, at_,
          {.first = first, .begin = first + begin, .end = first + end});
    });
    const int64_t parts = (count + plan_.part - 1) / plan_.part;
    Share(plan_.panels() * parts,
          [&](const WinogradBuffers& at, int64_t begin, int64_t end) {
            multiply_items_(
                plan_, at,
                {.first = first, .count = count, .begin = begin, .end = end});
          });
  }

  // Return sizes of parts of the workspace in numbers. `scratch` is one
  // thread's.
  int64_t transformed() const {
    return Aligned(plan_.panels() * plan_.kernel_size());
  }
  int64_t kernels() const {
    return plan_.local && !stable_ ? transformed() : 0;
  }
  int64_t images() const {
    return plan_.local ? 0 : Aligned(plan_.images().size());
  }
  int64_t scratch() const {
    const int64_t products = kWinogradFrequencies * plan_.result_stride();
    if (plan_.local) return Aligned(plan_.images().size() + products);
    const int64_t block = kWinogradBlock * plan_.panel + kWinogradSkew;
    return Aligned(products + (stable_ ? 0 : kWinogradFrequencies * block));
  }

  const WinogradPlan plan_;
  const int threads_;
  const bool stable_;
  WinogradBuffers at_;
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(TransformPanels))>
      transform_panels_ = HWY_DYNAMIC_DISPATCH(TransformPanels);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(TransformImages))>
      transform_images_ = HWY_DYNAMIC_DISPATCH(TransformImages);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(MultiplyItems))> multiply_items_ =
      HWY_DYNAMIC_DISPATCH(MultiplyItems);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(ConvolveGroups))>
      convolve_groups_ = HWY_DYNAMIC_DISPATCH(ConvolveGroups);
};

// Chooses the sizes. Images are transformed in the cache if the kernels leave
// room for them and there are enough tiles to pay for transforming all kernels
// first.
void Choose(WinogradPlan& plan, int threads, bool stable) {
  plan.panel = HWY_DYNAMIC_DISPATCH(PanelWidth)();
  const int64_t channels = plan.tiles.inputs();
  plan.local =
      kWinogradFrequencies * channels * plan.results <= kLocalKernels &&
      (stable || plan.tiles.count() >= plan.results);
  plan.group = plan.local ? plan.tiles.group(channels, kLocalBytes, threads)
                          : plan.tiles.group(channels, kGroupBytes, 1);
  plan.part = plan.local ? plan.group : std::min(plan.group, kPartTiles);
}

// Returns whether Activate applies the activation. oneDNN has GELU.
bool HasVectorActivation(const Epilogue& epilogue) {
  return epilogue.activation != Activation::kGelu &&
         epilogue.activation != Activation::kGeluTanh;
}

std::unique_ptr<Kernel> MakeKernel(WinogradPlan plan,
                                   const CompileRequest& request,
                                   const CpuContext& context) {
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const bool stable = request.stable_inputs[1];
  plan.tiles.taps = TapsOf(InputOf(request, 1).shape);
  Choose(plan, threads, stable);
  auto kernel = std::make_unique<WinogradKernel>(plan, threads, stable);
  if (InputOf(request, 0).shape.rank() != 5) return kernel;
  return MakeOnVolumes(request, context, std::move(kernel));
}

}  // namespace

KernelOr MakeWinogradConv2d(const CompileRequest& request,
                            const CpuContext& context) {
  const auto& conv = request.node.get<Conv2dAttributes>();
  const Value& x = InputOf(request, 0);
  const Value& y = OutputOf(request, 0);
  if (!SuitsWinograd(conv, {.x = x, .w = InputOf(request, 1), .y = y},
                     request.stable_inputs[1]) ||
      !HasVectorActivation(conv.epilogue)) {
    return nullptr;
  }
  WinogradPlan plan;
  const int64_t cells = 9 * TapsOf(InputOf(request, 1).shape);
  plan.tiles = TilesOf(x, y, conv.padding.begin);
  plan.results = y.shape[1];
  plan.result_height = y.shape[y.shape.rank() - 2];
  plan.result_width = y.shape[y.shape.rank() - 1];
  plan.weight_result = x.shape[1] * cells;
  plan.weight_channel = cells;
  plan.epilogue = conv.epilogue;
  return MakeKernel(plan, request, context);
}

// The gradient by images is the convolution of dy with rotated kernels. It is
// padded so that all windows that hold a cell of x take part.
KernelOr MakeWinogradInputGrad(const CompileRequest& request,
                               const CpuContext& context) {
  const auto& conv = request.node.get<Conv2dGradAttributes>().conv;
  const Value& dy = InputOf(request, 0);
  const Value& dx = OutputOf(request, 0);
  if (!SuitsWinograd(conv, {.x = dx, .w = InputOf(request, 1), .y = dy},
                     request.stable_inputs[1])) {
    return nullptr;
  }
  WinogradPlan plan;
  const int64_t taps = TapsOf(InputOf(request, 1).shape);
  const Extent& begin = conv.padding.begin;
  plan.tiles = TilesOf(dy, dx, {2 - begin.h, 2 - begin.w, taps - 1 - begin.d});
  plan.results = dx.shape[1];
  plan.result_height = dx.shape[dx.shape.rank() - 2];
  plan.result_width = dx.shape[dx.shape.rank() - 1];
  plan.weight_result = 9 * taps;
  plan.weight_channel = dx.shape[1] * 9 * taps;
  plan.turned = true;
  return MakeKernel(plan, request, context);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
