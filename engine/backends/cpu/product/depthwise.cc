#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/product/depthwise.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/product/depthwise-inl.h"
#include "engine/backends/cpu/product/depthwise.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_CC_
namespace gpupool::engine {

using DepthwiseRows = void (*)(const DepthwisePlan&, const DepthwiseBuffers&,
                               int64_t begin, int64_t end);

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_DEPTHWISE_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Returns null for windows without loops, and for processors without wide
// vectors, where oneDNN is faster.
DepthwiseRows FindRows(int kernel, int stride) {
  if (FloatLanes() < 8) return nullptr;
  const bool dense = stride == 1;
  switch (kernel) {
    case 3:
      return dense ? ConvolveRows<3, 1> : ConvolveRows<3, 2>;
    case 5:
      return dense ? ConvolveRows<5, 1> : ConvolveRows<5, 2>;
    case 7:
      return dense ? ConvolveRows<7, 1> : ConvolveRows<7, 2>;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(FindRows);

class DepthwiseKernel : public Kernel {
 public:
  DepthwiseKernel(const DepthwisePlan& plan, DepthwiseRows rows, int threads,
                  bool stable)
      : plan_(plan), rows_(rows), threads_(threads), stable_(stable) {}

  uint64_t workspace_bytes() const override {
    return stable_ ? 0 : weight_bytes();
  }
  uint64_t resident_bytes() const override {
    return stable_ ? weight_bytes() : 0;
  }
  std::string resident_format() const override {
    return absl::StrCat("depthwise/", plan_.kernel, "/", plan_.channels);
  }

  absl::Status Bind(const KernelBuffers& buffers) override {
    const auto numbers = [](std::byte* at) {
      return reinterpret_cast<float*>(at);
    };
    at_ = {};
    at_.x = numbers(buffers.inputs[0]);
    graph_weights_ = numbers(buffers.inputs[1]);
    size_t next = 2;
    if (plan_.epilogue.bias) at_.bias = numbers(buffers.inputs[next++]);
    if (plan_.epilogue.residual) at_.residual = numbers(buffers.inputs[next]);
    at_.y = numbers(buffers.outputs[0]);
    weights_ = numbers(stable_ ? buffers.resident : buffers.workspace);
    at_.w = weights_;
    return absl::OkStatus();
  }

  absl::Status Prepare() override {
    if (stable_) TurnWeights();
    return absl::OkStatus();
  }

  absl::Status Run() override {
    if (!stable_) TurnWeights();
    ParallelFor(
        threads_, plan_.images * plan_.blocks() * plan_.rows, 1,
        [&](int64_t begin, int64_t end) { rows_(plan_, at_, begin, end); });
    return absl::OkStatus();
  }

 private:
  int64_t cells() const { return int64_t{plan_.kernel} * plan_.kernel; }
  uint64_t weight_bytes() const {
    return static_cast<uint64_t>(cells() * plan_.channels) * sizeof(float);
  }

  // Writes the weights as [cells, channels].
  void TurnWeights() {
    for (int64_t c = 0; c < plan_.channels; ++c) {
      for (int64_t i = 0; i < cells(); ++i) {
        weights_[i * plan_.channels + c] = graph_weights_[c * cells() + i];
      }
    }
  }

  const DepthwisePlan plan_;
  const DepthwiseRows rows_;
  const int threads_;
  const bool stable_;
  const float* graph_weights_ = nullptr;
  float* weights_ = nullptr;
  DepthwiseBuffers at_;
};

DepthwiseEnd EndOf(const Epilogue& epilogue) {
  if (epilogue.residual) return DepthwiseEnd::kOther;
  switch (epilogue.activation) {
    case Activation::kNone:
      return DepthwiseEnd::kNothing;
    case Activation::kRelu:
      return DepthwiseEnd::kRelu;
    case Activation::kUnary:
      return epilogue.unary.function == UnaryFunction::kSilu
                 ? DepthwiseEnd::kSilu
                 : DepthwiseEnd::kOther;
    default:
      return DepthwiseEnd::kOther;
  }
}

bool IsDepthwise(const Conv2dAttributes& conv, const Value& x, const Value& w) {
  return x.dtype == DType::kFloat32 && x.layout == Layout::kChannelsLast &&
         x.shape.rank() == 4 && conv.groups == x.shape[1] &&
         w.shape[0] == x.shape[1] && w.shape[2] == w.shape[3] &&
         conv.stride.h == conv.stride.w && conv.stride.h <= 2 &&
         conv.dilation == Extent{1, 1} &&
         conv.epilogue.activation != Activation::kGelu &&
         conv.epilogue.activation != Activation::kGeluTanh;
}

}  // namespace

KernelOr MakeDepthwiseConv2d(const CompileRequest& request,
                             const CpuContext& context) {
  const auto& conv = request.node.get<Conv2dAttributes>();
  const Value& x = InputOf(request, 0);
  const Value& w = InputOf(request, 1);
  const Value& y = OutputOf(request, 0);
  if (!IsDepthwise(conv, x, w)) return nullptr;
  DepthwisePlan plan{.images = x.shape[0],
                     .channels = x.shape[1],
                     .height = x.shape[2],
                     .width = x.shape[3],
                     .rows = y.shape[2],
                     .columns = y.shape[3],
                     .begin_y = conv.padding.begin.h,
                     .begin_x = conv.padding.begin.w,
                     .kernel = static_cast<int>(w.shape[2]),
                     .stride = static_cast<int>(conv.stride.h),
                     .epilogue = conv.epilogue,
                     .end = EndOf(conv.epilogue)};
  const DepthwiseRows rows =
      HWY_DYNAMIC_DISPATCH(FindRows)(plan.kernel, plan.stride);
  if (rows == nullptr) return nullptr;
  // Depthwise convolutions run at half of the peak rate.
  const int threads =
      context.ThreadsForFlops(2 * NodeFlops(request.graph, request.node));
  return std::make_unique<DepthwiseKernel>(plan, rows, threads,
                                           request.stable_inputs[1]);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
