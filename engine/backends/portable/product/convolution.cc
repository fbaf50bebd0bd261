#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/image/space_maker.h"
#include "engine/backends/portable/product/convolution_functors.h"
#include "engine/backends/portable/product/epilogue_maker.h"
#include "engine/backends/portable/product/product_makers.h"

namespace gpupool::engine::portable {
namespace {

// Describes a convolution from x to y. A gradient kernel passes dx, dw or dy
// where it has no x, w or y.
ConvolutionShape ConvolutionShapeOf(const Conv2dAttributes& conv,
                                    const Value& x, const Value& w,
                                    const Value& y) {
  ConvolutionShape shape;
  const Window window = WindowOf(conv, x.shape, w.shape);
  shape.window = SlideOf(window);
  shape.x = StridesOf(x);
  shape.y = StridesOf(y);
  shape.examples = x.shape[0];
  shape.group_channels = w.shape[1];
  shape.group_filters = w.shape[0] / conv.groups;
  shape.kernel_cells = KernelCells(window);
  return shape;
}

template <typename T>
std::unique_ptr<Kernel> MakeConvolution(const CompileRequest& request,
                                        LaunchStream stream) {
  const Conv2dAttributes conv = request.node.get<Conv2dAttributes>();
  const Value& y = OutputOf(request, 0);
  ConvolutionFunctor<T> functor;
  functor.shape =
      ConvolutionShapeOf(conv, InputOf(request, 0), InputOf(request, 1), y);
  functor.places = PlacesOf(y);
  return MakeKernel([=, count = y.shape.elements()](const KernelArguments& at) {
    ConvolutionFunctor<T> bound = functor;
    bound.x = at.in<T>(0);
    bound.w = at.in<T>(1);
    bound.y = at.out<T>(0);
    bound.epilogue = BoundEpilogue<T>(conv.epilogue, at);
    LaunchFor(stream, count, bound);
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeInputGrad(const CompileRequest& request,
                                      LaunchStream stream) {
  const auto& grad = request.node.get<Conv2dGradAttributes>();
  const Value& dx = OutputOf(request, 0);
  ConvolutionInputGradFunctor<T> functor;
  functor.shape = ConvolutionShapeOf(grad.conv, dx, InputOf(request, 1),
                                     InputOf(request, 0));
  functor.places = PlacesOf(dx);
  return MakeKernel(
      [=, count = dx.shape.elements()](const KernelArguments& at) {
        ConvolutionInputGradFunctor<T> bound = functor;
        bound.dy = at.in<T>(0);
        bound.w = at.in<T>(1);
        bound.dx = at.out<T>(0);
        LaunchFor(stream, count, bound);
      });
}

template <typename T>
std::unique_ptr<Kernel> MakeWeightGrad(const CompileRequest& request,
                                       LaunchStream stream) {
  const auto& grad = request.node.get<Conv2dGradAttributes>();
  const Value& dw = OutputOf(request, 0);
  ConvolutionWeightGradFunctor<T> functor;
  functor.shape = ConvolutionShapeOf(grad.conv, InputOf(request, 1), dw,
                                     InputOf(request, 0));
  functor.weights = PlacesOf(dw).grid;
  const bool bias = grad.bias_grad;
  const int64_t filters = dw.shape[0];
  return MakeKernel([=,
                     count = dw.shape.elements()](const KernelArguments& at) {
    ConvolutionWeightGradFunctor<T> bound = functor;
    bound.dy = at.in<T>(0);
    bound.x = at.in<T>(1);
    bound.dw = at.out<T>(0);
    // Each number is a long sum, so a group of lanes makes it.
    LaunchRows(stream, count, bound);
    if (!bias) return;
    LaunchRows(
        stream, filters,
        ConvolutionBiasGradFunctor<T>{bound.dy, at.out<T>(1), functor.shape});
  });
}

}  // namespace

KernelOr MakeConvolution(const CompileRequest& request,
                         const PortableContext& context) {
  return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    switch (request.node.op) {
      case Op::kConv2d:
        return MakeConvolution<T>(request, context.stream);
      case Op::kConv2dInputGrad:
        return MakeInputGrad<T>(request, context.stream);
      default:
        return MakeWeightGrad<T>(request, context.stream);
    }
  });
}

}  // namespace gpupool::engine::portable
