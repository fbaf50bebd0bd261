// Convolutions and their gradients. Weights come and go row-major, [filters,
// channels / groups, height, width]; oneDNN chooses its own format for them
// and reorders stand in between.
#include <utility>

#include "engine/backends/cpu/dnnl_kernel.h"
#include "engine/backends/cpu/kernels.h"

namespace gpupool::engine {
namespace {

using Forward = dnnl::convolution_forward;
using Dims = dnnl::memory::dims;

// What the three kinds of convolution share.
struct Geometry {
  dnnl::memory::desc x, w, bias, y;
  Dims stride, dilation, padding;
};

dnnl::memory::desc WeightDesc(const Shape& shape, int64_t groups) {
  const auto f32 = dnnl::memory::data_type::f32;
  if (groups == 1) {
    return {{shape[0], shape[1], shape[2], shape[3]},
            f32,
            dnnl::memory::format_tag::oihw};
  }
  return {{groups, shape[0] / groups, shape[1], shape[2], shape[3]},
          f32,
          dnnl::memory::format_tag::goihw};
}

Geometry MakeGeometry(const Conv2dAttributes& conv, dnnl::memory::desc x,
                      const Shape& w, dnnl::memory::desc y) {
  Geometry geometry;
  geometry.x = std::move(x);
  geometry.w = WeightDesc(w, conv.groups);
  geometry.bias = dnnl::memory::desc({w[0]}, dnnl::memory::data_type::f32,
                                     dnnl::memory::format_tag::a);
  geometry.y = std::move(y);
  geometry.stride = {conv.stride.h, conv.stride.w};
  geometry.dilation = {conv.dilation.h - 1, conv.dilation.w - 1};
  geometry.padding = {conv.padding.h, conv.padding.w};
  return geometry;
}

Forward::desc ForwardDesc(const Geometry& g, dnnl::prop_kind kind, bool bias) {
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto w = AnyFormat(g.w);
  if (bias) {
    return {kind, algorithm, g.x,        w,         g.bias,
            g.y,  g.stride,  g.dilation, g.padding, g.padding};
  }
  return {kind,     algorithm,  g.x,       w,        g.y,
          g.stride, g.dilation, g.padding, g.padding};
}

Forward::primitive_desc Hint(const Geometry& g, const CpuContext& context) {
  return {ForwardDesc(g, dnnl::prop_kind::forward_training, false),
          UserScratchpad(), context.engine()};
}

}  // namespace

KernelOr MakeConv2d(const CompileRequest& request, const CpuContext& context) {
  const auto& attributes = request.node.get<Conv2dAttributes>();
  const Epilogue& epilogue = attributes.epilogue;
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const ScopedThreads scope(threads);
  const Geometry g =
      MakeGeometry(attributes, DescOf(InputOf(request, 0)),
                   InputOf(request, 1).shape, DescOf(OutputOf(request, 0)));
  dnnl::primitive_attr attr = UserScratchpad();
  attr.set_post_ops(EpiloguePostOps(epilogue));
  const Forward::primitive_desc primitive(
      ForwardDesc(g, dnnl::prop_kind::forward_inference, epilogue.bias), attr,
      context.engine());

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  std::vector<Operand> operands = {
      {DNNL_ARG_SRC, g.x, Where::kInput, 0},
      kernel->Packed({DNNL_ARG_WEIGHTS, g.w, Where::kInput, 1},
                     primitive.weights_desc(), request.stable_inputs[1]),
      {DNNL_ARG_DST, g.y, Where::kOutput, 0}};
  uint64_t next = 2;
  if (epilogue.bias) {
    operands.push_back({DNNL_ARG_BIAS, g.bias, Where::kInput, next++});
  }
  if (epilogue.residual) {
    kernel->AddReorder(When::kRun, {0, g.y, Where::kInput, next},
                       {0, g.y, Where::kOutput, 0});
  }
  kernel->AddStep(When::kRun, Forward(primitive), primitive.scratchpad_desc(),
                  std::move(operands));
  return kernel;
}

KernelOr MakeConv2dInputGrad(const CompileRequest& request,
                             const CpuContext& context) {
  const auto& attributes = request.node.get<Conv2dGradAttributes>();
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const ScopedThreads scope(threads);
  const Geometry g =
      MakeGeometry(attributes.conv, DescOf(OutputOf(request, 0)),
                   InputOf(request, 1).shape, DescOf(InputOf(request, 0)));
  using Backward = dnnl::convolution_backward_data;
  const Backward::primitive_desc primitive(
      Backward::desc(dnnl::algorithm::convolution_direct, g.x, AnyFormat(g.w),
                     g.y, g.stride, g.dilation, g.padding, g.padding),
      UserScratchpad(), context.engine(), Hint(g, context));

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  const Operand weights =
      kernel->Packed({DNNL_ARG_WEIGHTS, g.w, Where::kInput, 1},
                     primitive.weights_desc(), request.stable_inputs[1]);
  kernel->AddStep(When::kRun, Backward(primitive), primitive.scratchpad_desc(),
                  {{DNNL_ARG_DIFF_DST, g.y, Where::kInput, 0},
                   weights,
                   {DNNL_ARG_DIFF_SRC, g.x, Where::kOutput, 0}});
  return kernel;
}

KernelOr MakeConv2dWeightGrad(const CompileRequest& request,
                              const CpuContext& context) {
  const auto& attributes = request.node.get<Conv2dGradAttributes>();
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const ScopedThreads scope(threads);
  const Geometry g =
      MakeGeometry(attributes.conv, DescOf(InputOf(request, 1)),
                   OutputOf(request, 0).shape, DescOf(InputOf(request, 0)));
  using Backward = dnnl::convolution_backward_weights;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto w = AnyFormat(g.w);
  const auto desc =
      attributes.bias_grad
          ? Backward::desc(algorithm, g.x, w, g.bias, g.y, g.stride, g.dilation,
                           g.padding, g.padding)
          : Backward::desc(algorithm, g.x, w, g.y, g.stride, g.dilation,
                           g.padding, g.padding);
  const Backward::primitive_desc primitive(desc, UserScratchpad(),
                                           context.engine(), Hint(g, context));

  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  const Operand plain{DNNL_ARG_DIFF_WEIGHTS, g.w, Where::kOutput, 0};
  Operand result{DNNL_ARG_DIFF_WEIGHTS, primitive.diff_weights_desc(),
                 Where::kOutput, 0};
  const bool reorder = result.desc != plain.desc;
  if (reorder) {
    result.where = Where::kWorkspace;
    result.at = kernel->AddWorkspace(result.desc.get_size());
  }
  std::vector<Operand> operands = {{DNNL_ARG_SRC, g.x, Where::kInput, 1},
                                   {DNNL_ARG_DIFF_DST, g.y, Where::kInput, 0},
                                   result};
  if (attributes.bias_grad) {
    operands.push_back({DNNL_ARG_DIFF_BIAS, g.bias, Where::kOutput, 1});
  }
  kernel->AddStep(When::kRun, Backward(primitive), primitive.scratchpad_desc(),
                  std::move(operands));
  if (reorder) kernel->AddReorder(When::kRun, result, plain);
  return kernel;
}

}  // namespace gpupool::engine
