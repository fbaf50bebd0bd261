// Convolutions of 8-bit codes by oneDNN, channels-last. Weights are packed
// once, with what oneDNN must add for the zero point of the input. oneDNN
// rounds after it has added the zero point of the output. If that is odd, a
// number halfway between two codes gets the other one.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/product/convolution_geometry.h"

namespace gpupool::engine {
namespace {

using Forward = dnnl::convolution_forward;

dnnl::memory::desc ImageDesc(const Value& image) {
  return DescOf(image.shape, image.dtype, Layout::kChannelsLast);
}

// Returns the clamp to [low, high], unless the type does it alone. Post-ops run
// before the zero point is added.
dnnl::post_ops ClampPostOps(const CodeRange& codes) {
  dnnl::post_ops post_ops;
  const bool is_unsigned = codes.dtype == DType::kUint8;
  const int least = is_unsigned ? 0 : -128;
  const int most = is_unsigned ? 255 : 127;
  if (codes.low == least && codes.high == most) return post_ops;
  const auto low = static_cast<float>(codes.low - codes.zero);
  const auto high = static_cast<float>(codes.high - codes.zero);
  if (codes.low == codes.zero && codes.high == most) {
    AppendFunction(post_ops, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  } else {
    AppendFunction(post_ops, dnnl::algorithm::eltwise_clip, low, high);
  }
  return post_ops;
}

// Everything about a convolution but its factors.
struct Convolution {
  QuantizedConv2dAttributes attributes;
  Value x, w, shift, y;
  int threads = 1;
};

// Makes the kernel for known factors, one for each filter.
std::unique_ptr<DnnlKernel> MakeKnown(const CpuContext& context,
                                      const Convolution& c,
                                      std::vector<float> factors) {
  const ScopedThreads scope(c.threads);
  const Conv2dAttributes& conv = c.attributes.conv;
  const CodeRange& codes = c.attributes.codes;
  dnnl::primitive_attr attr = UserScratchpad();
  SetCodedSums(attr, {.x_zero = c.attributes.x_zero,
                      .factors = std::move(factors),
                      .y_zero = codes.zero});
  attr.set_post_ops(ClampPostOps(codes));
  const auto w = WeightDesc(c.w, conv.groups);
  const auto shift = DescOf(c.shift);
  const ConvolutionWindow window =
      ConvolutionWindowOf(conv, c.x.shape, c.w.shape);
  const auto primitive = Describe<Forward>(
      context.engine(), attr, dnnl::prop_kind::forward_inference,
      dnnl::algorithm::convolution_direct, ImageDesc(c.x), AnyFormat(w), shift,
      ImageDesc(c.y), window.stride, window.dilation, window.begin, window.end);

  auto kernel = std::make_unique<DnnlKernel>(context, c.threads);
  const Operand result{DNNL_ARG_DST, DescOf(c.y), Where::kOutput, 0};
  Operand written = result;
  if (result.desc != ImageDesc(c.y)) {
    written.desc = ImageDesc(c.y);
    written.where = Where::kWorkspace;
    written.at = kernel->AddWorkspace(written.desc.get_size());
  }
  const Operand image = kernel->Packed(
      {DNNL_ARG_SRC, DescOf(c.x), Where::kInput, 0}, ImageDesc(c.x), false);
  const Operand weights = kernel->Packed(
      {DNNL_ARG_WEIGHTS, w, Where::kInput, 1}, primitive.weights_desc(), true);
  kernel->AddStep(
      When::kRun, Forward(primitive), primitive.scratchpad_desc(),
      {image, weights, {DNNL_ARG_BIAS, shift, Where::kInput, 3}, written});
  if (written.desc != result.desc) {
    kernel->AddReorder(When::kRun, written, result);
  }
  return kernel;
}

// oneDNN must know the factors when it makes a primitive, but they are numbers
// of the model. So Prepare makes the kernel that runs. It needs the same memory
// as the one that was planned, whose factors are arbitrary.
class QuantizedConvolution : public Kernel {
 public:
  QuantizedConvolution(const CpuContext& context, Convolution convolution)
      : context_(context),
        convolution_(std::move(convolution)),
        kernel_(MakeKnown(context_, convolution_,
                          std::vector<float>(filters(), 0.5f))) {}

  uint64_t workspace_bytes() const override {
    return kernel_->workspace_bytes();
  }
  uint64_t resident_bytes() const override { return kernel_->resident_bytes(); }
  std::string resident_format() const override {
    return kernel_->resident_format();
  }
  absl::Status Bind(const KernelBuffers& buffers) override {
    buffers_ = buffers;
    return kernel_->Bind(buffers);
  }
  absl::Status Prepare() override {
    const auto* factors = reinterpret_cast<const float*>(buffers_.inputs[2]);
    try {
      auto known =
          MakeKnown(context_, convolution_, {factors, factors + filters()});
      if (known->workspace_bytes() > kernel_->workspace_bytes() ||
          known->resident_bytes() != kernel_->resident_bytes() ||
          known->resident_format() != kernel_->resident_format()) {
        return absl::InternalError(
            "a quantised convolution needs other memory than was planned");
      }
      kernel_ = std::move(known);
    } catch (const dnnl::error& error) {
      return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
    }
    const absl::Status bound = kernel_->Bind(buffers_);
    return bound.ok() ? kernel_->Prepare() : bound;
  }
  absl::Status Run() override { return kernel_->Run(); }

 private:
  size_t filters() const {
    return static_cast<size_t>(convolution_.w.shape[0]);
  }

  const CpuContext& context_;
  const Convolution convolution_;
  std::unique_ptr<DnnlKernel> kernel_;
  KernelBuffers buffers_;
};

}  // namespace

KernelOr MakeQuantizedConv2d(const CompileRequest& request,
                             const CpuContext& context) {
  const std::vector<bool>& stable = request.stable_inputs;
  if (!HasFastIntegerProducts() || !stable[1] || !stable[2]) return nullptr;
  return std::make_unique<QuantizedConvolution>(
      context,
      Convolution{.attributes = request.node.get<QuantizedConv2dAttributes>(),
                  .x = InputOf(request, 0),
                  .w = InputOf(request, 1),
                  .shift = InputOf(request, 3),
                  .y = OutputOf(request, 0),
                  .threads = context.ThreadsForFlops(
                      NodeFlops(request.graph, request.node))});
}

}  // namespace gpupool::engine
