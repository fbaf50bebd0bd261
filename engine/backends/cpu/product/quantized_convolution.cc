// Convolutions of 8-bit codes by oneDNN, channels-last. Weights are packed
// once, with what oneDNN must add for the zero point of the input.
#include <utility>

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

}  // namespace

KernelOr MakeQuantizedConv2d(const CompileRequest& request,
                             const CpuContext& context) {
  if (!HasFastIntegerProducts()) return nullptr;
  const auto& attributes = request.node.get<QuantizedConv2dAttributes>();
  const Conv2dAttributes& conv = attributes.conv;
  const Value& x = InputOf(request, 0);
  const Value& w = InputOf(request, 1);
  const Value& y = OutputOf(request, 0);
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const ScopedThreads scope(threads);
  dnnl::primitive_attr attr = UserScratchpad();
  const int factors = SetCodes(attr, attributes.x_zero, attributes.codes.zero);
  attr.set_post_ops(ClampPostOps(attributes.codes));
  const auto plain_w = WeightDesc(w, conv.groups);
  const auto row = DescOf(InputOf(request, 2));
  const ConvolutionWindow window = ConvolutionWindowOf(conv, x.shape, w.shape);
  const auto primitive = Describe<Forward>(
      context.engine(), attr, dnnl::prop_kind::forward_inference,
      dnnl::algorithm::convolution_direct, ImageDesc(x), AnyFormat(plain_w),
      row, ImageDesc(y), window.stride, window.dilation, window.begin,
      window.end);

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  const Operand result{DNNL_ARG_DST, DescOf(y), Where::kOutput, 0};
  Operand written = result;
  if (result.desc != ImageDesc(y)) {
    written.desc = ImageDesc(y);
    written.where = Where::kWorkspace;
    written.at = kernel->AddWorkspace(written.desc.get_size());
  }
  const Operand image = kernel->Packed(
      {DNNL_ARG_SRC, DescOf(x), Where::kInput, 0}, ImageDesc(x), false);
  const Operand weights =
      kernel->Packed({DNNL_ARG_WEIGHTS, plain_w, Where::kInput, 1},
                     primitive.weights_desc(), request.stable_inputs[1]);
  kernel->AddStep(When::kRun, Forward(primitive), primitive.scratchpad_desc(),
                  {image,
                   weights,
                   {DNNL_ARG_BIAS, row, Where::kInput, 3},
                   {factors, row, Where::kInput, 2},
                   written});
  if (written.desc != result.desc) {
    kernel->AddReorder(When::kRun, written, result);
  }
  return kernel;
}

}  // namespace gpupool::engine
