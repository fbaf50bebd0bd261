// Convolutions and their gradients. In the graph weights are row-major,
// [filters, channels / groups, kernel...]. oneDNN chooses its own format for
// them, so reorders stand before or after the convolution.
//
// Volumes are row-major in the graph, too. Most are convolved channels-last:
// from row-major ones oneDNN would collect the cells of each window, which
// takes up to twice as long as the reorders and the convolution together.
#include <utility>

#include "absl/strings/match.h"
#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/product/convolution_geometry.h"
#include "engine/backends/cpu/product/depthwise.h"
#include "engine/backends/cpu/product/winograd.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

using Forward = dnnl::convolution_forward;
using WeightGrad = dnnl::convolution_backward_weights;
using Dims = dnnl::memory::dims;

// The common part of the three kinds of convolution.
struct Geometry {
  dnnl::memory::desc x, w, bias, y;
  dnnl::memory::desc graph_x, graph_y;  // as the graph has x and y
  Dims stride, dilation, begin, end;
};

// Returns whether volumes are convolved channels-last. oneDNN 2.6 reads beyond
// such volumes in groups whose channels do not fill its vectors, and adds the
// residual to the wrong cells where windows of one cell are padded.
bool AreChannelsLast(const Conv2dAttributes& conv, const Shape& w) {
  return w.rank() == 5 && conv.groups == 1 && w[2] * w[3] * w[4] > 1;
}

// Returns the format in which the value is convolved.
dnnl::memory::desc ConvolvedDesc(const Value& value, bool channels_last) {
  const Shape& shape = value.shape;
  if (!channels_last) return DescOf(value);
  return {Dims(shape.dims().begin(), shape.dims().end()), DnnlType(value.dtype),
          dnnl::memory::format_tag::ndhwc};
}

Geometry MakeGeometry(const Conv2dAttributes& conv, const Value& x,
                      const Value& w, const Value& y) {
  Geometry geometry;
  const bool channels_last = AreChannelsLast(conv, w.shape);
  geometry.x = ConvolvedDesc(x, channels_last);
  geometry.w = WeightDesc(w, conv.groups);
  geometry.bias = dnnl::memory::desc({w.shape[0]}, DnnlType(w.dtype),
                                     dnnl::memory::format_tag::a);
  geometry.y = ConvolvedDesc(y, channels_last);
  geometry.graph_x = DescOf(x);
  geometry.graph_y = DescOf(y);
  const ConvolutionWindow window = ConvolutionWindowOf(conv, x.shape, w.shape);
  geometry.stride = window.stride;
  geometry.dilation = window.dilation;
  geometry.begin = window.begin;
  geometry.end = window.end;
  return geometry;
}

// The purpose of a primitive, beside its geometry.
struct Purpose {
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  dnnl::prop_kind kind = dnnl::prop_kind::forward_inference;
  bool bias = false;
};

Forward::primitive_desc DescribeForward(const CpuContext& context,
                                        const dnnl::primitive_attr& attr,
                                        const Geometry& g,
                                        const Purpose& purpose) {
  const auto w = AnyFormat(g.w);
  if (purpose.bias) {
    return Describe<Forward>(context.engine(), attr, purpose.kind,
                             purpose.algorithm, g.x, w, g.bias, g.y, g.stride,
                             g.dilation, g.begin, g.end);
  }
  return Describe<Forward>(context.engine(), attr, purpose.kind,
                           purpose.algorithm, g.x, w, g.y, g.stride, g.dilation,
                           g.begin, g.end);
}

// Describes a primitive, and changes the geometry to volumes as the graph has
// them where oneDNN has nothing but a slow reference for channels-last ones.
template <typename Make>
auto DescribeFast(Geometry& g, const Make& make) {
  auto primitive = make(g);
  if (g.x == g.graph_x ||
      !absl::StrContains(primitive.impl_info_str(), "ref")) {
    return primitive;
  }
  g.x = g.graph_x;
  g.y = g.graph_y;
  return make(g);
}

// Returns the operand to which a primitive writes `wanted`: the output
// `graph` itself, or memory from which FinishOutput copies it.
Operand StartOutput(DnnlKernel& kernel, const Operand& graph,
                    const dnnl::memory::desc& wanted) {
  if (graph.desc == wanted) return graph;
  return {graph.argument, wanted, Where::kWorkspace,
          kernel.AddWorkspace(wanted.get_size())};
}

void FinishOutput(DnnlKernel& kernel, const Operand& written,
                  const Operand& graph) {
  if (graph.desc != written.desc) {
    kernel.AddReorder(When::kRun, written, graph);
  }
}

// Returns the forward primitive, which backward ones need as a hint.
Forward::primitive_desc Hint(const Geometry& g, const CpuContext& context) {
  return DescribeForward(context, UserScratchpad(), g,
                         {.kind = dnnl::prop_kind::forward_training});
}

WeightGrad::primitive_desc DescribeWeightGrad(const CpuContext& context,
                                              const Geometry& g, bool bias) {
  const auto hint = Hint(g, context);
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto w = AnyFormat(g.w);
  if (bias) {
    return DescribeGradient<WeightGrad>(context.engine(), UserScratchpad(),
                                        hint, direct, g.x, w, g.bias, g.y,
                                        g.stride, g.dilation, g.begin, g.end);
  }
  return DescribeGradient<WeightGrad>(context.engine(), UserScratchpad(), hint,
                                      direct, g.x, w, g.y, g.stride, g.dilation,
                                      g.begin, g.end);
}

// oneDNN's Winograd kernels are for inference only. They pay where enough cells
// share the weights, which are transformed when they are loaded. They are used
// where our own do not apply, such as for channels that do not fill vectors.
// oneDNN chooses among them by the batch, with other bits, so they compute one
// image after another.
constexpr int64_t kWinogradCells = 196;
constexpr int64_t kWinogradChannels = 64;

bool SuitsOnednnWinograd(const CompileRequest& request) {
  const auto& conv = request.node.get<Conv2dAttributes>();
  const Shape& w = InputOf(request, 1).shape;
  const Shape& y = OutputOf(request, 0).shape;
  return InputOf(request, 0).dtype == DType::kFloat32 &&
         request.stable_inputs[1] && w.rank() == 4 && w[2] == 3 && w[3] == 3 &&
         conv.stride == Extent{1, 1} && conv.dilation == Extent{1, 1} &&
         conv.groups == 1 && w[0] >= kWinogradChannels &&
         w[1] >= kWinogradChannels && y[2] * y[3] >= kWinogradCells &&
         OutputOf(request, 0).layout == Layout::kChannelsLast;
}

// Returns the images as a value of one image.
Value OfOneImage(const Value& images) {
  Value image = images;
  const Shape& shape = images.shape;
  image.shape = {1, shape[1], shape[2], shape[3]};
  return image;
}

// Returns null when oneDNN has no such kernel.
std::unique_ptr<Kernel> MakeOnednnWinograd(const CompileRequest& request,
                                           const CpuContext& context,
                                           const Geometry& g, int threads) try {
  const Epilogue& epilogue = request.node.get<Conv2dAttributes>().epilogue;
  dnnl::primitive_attr attr = UserScratchpad();
  attr.set_post_ops(EpiloguePostOps(epilogue));
  Geometry image = g;
  image.x = DescOf(OfOneImage(InputOf(request, 0)));
  image.y = DescOf(OfOneImage(OutputOf(request, 0)));
  // These kernels want their own formats of x and y, too.
  Geometry own = image;
  own.x = AnyFormat(image.x);
  own.y = AnyFormat(image.y);
  const auto primitive =
      DescribeForward(context, attr, own,
                      {.algorithm = dnnl::algorithm::convolution_winograd,
                       .bias = epilogue.bias});
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  const Operand x{DNNL_ARG_SRC, primitive.src_desc(), Where::kWorkspace,
                  kernel->AddWorkspace(primitive.src_desc().get_size())};
  const Operand y{DNNL_ARG_DST, primitive.dst_desc(), Where::kWorkspace,
                  kernel->AddWorkspace(primitive.dst_desc().get_size())};
  std::vector<Operand> operands = {
      x,
      kernel->Packed({DNNL_ARG_WEIGHTS, g.w, Where::kInput, 1},
                     primitive.weights_desc(), true),
      y};
  uint64_t next = 2;
  if (epilogue.bias) {
    operands.push_back({DNNL_ARG_BIAS, g.bias, Where::kInput, next++});
  }
  const Forward convolution(primitive);
  const int64_t images = InputOf(request, 0).shape[0];
  for (int64_t i = 0; i < images; ++i) {
    const auto at = [&](const dnnl::memory::desc& desc, Where where,
                        uint64_t buffer) {
      return Operand{0, desc, where, buffer,
                     static_cast<uint64_t>(i) * desc.get_size()};
    };
    kernel->AddReorder(When::kRun, at(image.x, Where::kInput, 0), x);
    if (epilogue.residual) {
      kernel->AddReorder(When::kRun, at(image.y, Where::kInput, next), y);
    }
    kernel->AddStep(When::kRun, convolution, primitive.scratchpad_desc(),
                    operands);
    kernel->AddReorder(When::kRun, y, at(image.y, Where::kOutput, 0));
  }
  return kernel;
} catch (const dnnl::error&) {
  return nullptr;
}

}  // namespace

KernelOr MakeConv2d(const CompileRequest& request, const CpuContext& context) {
  // Our own kernels are the fastest where they apply.
  ASSIGN_OR_RETURN(auto own, MakeWinogradConv2d(request, context));
  if (own != nullptr) return own;
  ASSIGN_OR_RETURN(own, MakeDepthwiseConv2d(request, context));
  if (own != nullptr) return own;
  const auto& attributes = request.node.get<Conv2dAttributes>();
  const Epilogue& epilogue = attributes.epilogue;
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const ScopedThreads scope(threads);
  Geometry g = MakeGeometry(attributes, InputOf(request, 0),
                            InputOf(request, 1), OutputOf(request, 0));
  if (SuitsOnednnWinograd(request)) {
    auto kernel = MakeOnednnWinograd(request, context, g, threads);
    if (kernel != nullptr) return kernel;
  }
  dnnl::primitive_attr attr = UserScratchpad();
  attr.set_post_ops(EpiloguePostOps(epilogue));
  const auto primitive = DescribeFast(g, [&](const Geometry& geometry) {
    return DescribeForward(context, attr, geometry, {.bias = epilogue.bias});
  });

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  const Operand result{DNNL_ARG_DST, g.graph_y, Where::kOutput, 0};
  const Operand y = StartOutput(*kernel, result, g.y);
  std::vector<Operand> operands = {
      kernel->Packed({DNNL_ARG_SRC, g.graph_x, Where::kInput, 0}, g.x, false),
      kernel->Packed({DNNL_ARG_WEIGHTS, g.w, Where::kInput, 1},
                     primitive.weights_desc(), request.stable_inputs[1]),
      y};
  uint64_t next = 2;
  if (epilogue.bias) {
    operands.push_back({DNNL_ARG_BIAS, g.bias, Where::kInput, next++});
  }
  if (epilogue.residual) {
    kernel->AddReorder(When::kRun, {0, g.graph_y, Where::kInput, next}, y);
  }
  kernel->AddStep(When::kRun, Forward(primitive), primitive.scratchpad_desc(),
                  std::move(operands));
  FinishOutput(*kernel, y, result);
  return kernel;
}

KernelOr MakeConv2dInputGrad(const CompileRequest& request,
                             const CpuContext& context) {
  ASSIGN_OR_RETURN(auto own, MakeWinogradInputGrad(request, context));
  if (own != nullptr) return own;
  const auto& attributes = request.node.get<Conv2dGradAttributes>();
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const ScopedThreads scope(threads);
  Geometry g = MakeGeometry(attributes.conv, OutputOf(request, 0),
                            InputOf(request, 1), InputOf(request, 0));
  using Backward = dnnl::convolution_backward_data;
  const auto primitive = DescribeFast(g, [&](const Geometry& at) {
    return DescribeGradient<Backward>(
        context.engine(), UserScratchpad(), Hint(at, context),
        dnnl::algorithm::convolution_direct, at.x, AnyFormat(at.w), at.y,
        at.stride, at.dilation, at.begin, at.end);
  });

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  const Operand weights =
      kernel->Packed({DNNL_ARG_WEIGHTS, g.w, Where::kInput, 1},
                     primitive.weights_desc(), request.stable_inputs[1]);
  const Operand dy = kernel->Packed(
      {DNNL_ARG_DIFF_DST, g.graph_y, Where::kInput, 0}, g.y, false);
  const Operand result{DNNL_ARG_DIFF_SRC, g.graph_x, Where::kOutput, 0};
  const Operand dx = StartOutput(*kernel, result, g.x);
  kernel->AddStep(When::kRun, Backward(primitive), primitive.scratchpad_desc(),
                  {dy, weights, dx});
  FinishOutput(*kernel, dx, result);
  return kernel;
}

KernelOr MakeConv2dWeightGrad(const CompileRequest& request,
                              const CpuContext& context) {
  ASSIGN_OR_RETURN(auto own, MakeWinogradWeightGrad(request, context));
  if (own != nullptr) return own;
  const auto& attributes = request.node.get<Conv2dGradAttributes>();
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const ScopedThreads scope(threads);
  Geometry g = MakeGeometry(attributes.conv, InputOf(request, 1),
                            OutputOf(request, 0), InputOf(request, 0));
  const auto primitive = DescribeFast(g, [&](const Geometry& geometry) {
    return DescribeWeightGrad(context, geometry, attributes.bias_grad);
  });

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  // oneDNN may write the gradient in its own format, but the graph's is
  // row-major.
  const Operand result{DNNL_ARG_DIFF_WEIGHTS, g.w, Where::kOutput, 0};
  const Operand dw =
      StartOutput(*kernel, result, primitive.diff_weights_desc());
  std::vector<Operand> operands = {
      kernel->Packed({DNNL_ARG_SRC, g.graph_x, Where::kInput, 1}, g.x, false),
      kernel->Packed({DNNL_ARG_DIFF_DST, g.graph_y, Where::kInput, 0}, g.y,
                     false),
      dw};
  if (attributes.bias_grad) {
    operands.push_back({DNNL_ARG_DIFF_BIAS, g.bias, Where::kOutput, 1});
  }
  kernel->AddStep(When::kRun, WeightGrad(primitive),
                  primitive.scratchpad_desc(), std::move(operands));
  FinishOutput(*kernel, dw, result);
  return kernel;
}

}  // namespace gpupool::engine
