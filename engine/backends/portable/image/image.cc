#include <utility>

#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/image/image_functors.h"
#include "engine/backends/portable/image/image_makers.h"
#include "engine/backends/portable/image/space_maker.h"

namespace gpupool::engine::portable {
namespace {

// Describes a pooling from x to y. A gradient kernel passes dx and dy instead.
PoolShape ShapeOf(const Pool2dAttributes& pool, const Value& x,
                  const Value& y) {
  PoolShape shape;
  shape.window = SlideOf(WindowOf(pool, x.shape));
  shape.x = StridesOf(x);
  shape.y = StridesOf(y);
  shape.exclude_padding = pool.exclude_padding;
  return shape;
}

template <typename T>
std::unique_ptr<Kernel> MakeMaxPool(const CompileRequest& request,
                                    LaunchStream stream) {
  const auto& pool = request.node.get<Pool2dAttributes>();
  const Value& y = OutputOf(request, 0);
  const bool argmax = request.node.outputs.size() > 1;
  MaxPoolFunctor<T> functor;
  functor.shape = ShapeOf(pool, InputOf(request, 0), y);
  functor.places = PlacesOf(y);
  if (argmax) functor.argmax_type = OutputOf(request, 1).dtype;
  return MakeKernel([=, count = y.shape.elements()](const KernelArguments& at) {
    MaxPoolFunctor<T> bound = functor;
    bound.x = at.in<T>(0);
    bound.y = at.out<T>(0);
    if (argmax) bound.argmax = at.out<void>(1);
    LaunchFor(stream, count, bound);
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeMaxPoolGrad(const CompileRequest& request,
                                        LaunchStream stream) {
  const auto& grad = request.node.get<Pool2dGradAttributes>();
  const Value& dx = OutputOf(request, 0);
  MaxPoolGradFunctor<T> functor;
  functor.shape = ShapeOf(grad.pool, dx, InputOf(request, 0));
  functor.places = PlacesOf(dx);
  functor.argmax_type = InputOf(request, 1).dtype;
  return MakeKernel(
      [=, count = dx.shape.elements()](const KernelArguments& at) {
        MaxPoolGradFunctor<T> bound = functor;
        bound.dy = at.in<T>(0);
        bound.argmax = at.in<void>(1);
        bound.dx = at.out<T>(0);
        LaunchFor(stream, count, bound);
      });
}

template <typename T>
std::unique_ptr<Kernel> MakeAvgPool(const CompileRequest& request,
                                    LaunchStream stream) {
  const auto& pool = request.node.get<Pool2dAttributes>();
  const Value& y = OutputOf(request, 0);
  const PoolShape shape = ShapeOf(pool, InputOf(request, 0), y);
  return MakeKernel([=, places = PlacesOf(y),
                     count = y.shape.elements()](const KernelArguments& at) {
    LaunchFor(stream, count,
              AvgPoolFunctor<T>{at.in<T>(0), at.out<T>(0), shape, places});
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeAvgPoolGrad(const CompileRequest& request,
                                        LaunchStream stream) {
  const auto& grad = request.node.get<Pool2dGradAttributes>();
  const Value& dx = OutputOf(request, 0);
  const PoolShape shape = ShapeOf(grad.pool, dx, InputOf(request, 0));
  return MakeKernel([=, places = PlacesOf(dx),
                     count = dx.shape.elements()](const KernelArguments& at) {
    LaunchFor(stream, count,
              AvgPoolGradFunctor<T>{at.in<T>(0), at.out<T>(0), shape, places});
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeGlobalAvgPool(const CompileRequest& request,
                                          LaunchStream stream) {
  const Value& x = InputOf(request, 0);
  const SpaceStrides strides = StridesOf(x);
  const int64_t rows = x.shape[0] * x.shape[1];
  GlobalAvgPoolFunctor<T> functor;
  functor.channels = x.shape[1];
  functor.cells = x.shape[2] * x.shape[3];
  functor.example_stride = strides.example;
  functor.channel_stride = strides.channel;
  functor.cell_stride = strides.cell[2];
  return MakeKernel([=](const KernelArguments& at) {
    GlobalAvgPoolFunctor<T> bound = functor;
    bound.x = at.in<T>(0);
    bound.y = at.out<T>(0);
    // With contiguous cells the lanes of a group read neighbours. Otherwise
    // threads of neighbouring channels do.
    if (bound.cell_stride == 1) {
      LaunchRows(stream, rows, bound);
    } else {
      LaunchFor(stream, rows, bound);
    }
  });
}

// Returns a walk that maps a place in the value's memory to the sum of `steps`
// over its coordinates.
Walk<1> WalkAlong(const Value& x, const std::vector<int64_t>& steps) {
  LoopNest loops;
  loops.strides.resize(1);
  for (const int axis : MemoryOrder(x.shape.rank(), x.layout)) {
    loops.sizes.push_back(x.shape[axis]);
    loops.strides[0].push_back(steps[static_cast<size_t>(axis)]);
  }
  return WalkOf<1>(std::move(loops));
}

template <typename T>
std::unique_ptr<Kernel> MakeGlobalAvgPoolGrad(const CompileRequest& request,
                                              LaunchStream stream) {
  const Value& dx = OutputOf(request, 0);
  const Walk<1> channel_of = WalkAlong(dx, {dx.shape[1], 1, 0, 0});
  // Each cell of a channel gets an equal share of the gradient.
  const double share = 1.0 / static_cast<double>(dx.shape[2] * dx.shape[3]);
  return MakeKernel(
      [=, count = dx.shape.elements()](const KernelArguments& at) {
        LaunchFor(stream, count,
                  GlobalAvgPoolGradFunctor<T>{at.in<T>(0), at.out<T>(0),
                                              channel_of, share});
      });
}

LrnShape LrnShapeOf(const CompileRequest& request, const Value& x) {
  const auto& lrn = request.node.get<LrnAttributes>();
  // With these steps the walk finds an element's channel.
  std::vector<int64_t> steps(static_cast<size_t>(x.shape.rank()), 0);
  steps[1] = 1;
  LrnShape shape;
  shape.type = x.dtype;
  shape.channel_of = WalkAlong(x, steps);
  shape.channel_stride = MemoryStrides(x.shape, x.layout)[1];
  shape.channels = x.shape[1];
  // An even window has one more channel behind than before.
  shape.before = (lrn.size - 1) / 2;
  shape.behind = lrn.size / 2;
  shape.bias = lrn.bias;
  shape.factor = lrn.alpha / static_cast<double>(lrn.size);
  shape.beta = lrn.beta;
  return shape;
}

KernelOr MakeLrn(const CompileRequest& request, LaunchStream stream) {
  const Value& x = InputOf(request, 0);
  return MakeKernel([=, shape = LrnShapeOf(request, x),
                     count = x.shape.elements()](const KernelArguments& at) {
    LaunchFor(stream, count,
              LrnFunctor{at.in<void>(0), at.out<void>(0), shape});
  });
}

KernelOr MakeLrnGrad(const CompileRequest& request, LaunchStream stream) {
  const Value& x = InputOf(request, 1);
  return MakeKernel([=, shape = LrnShapeOf(request, x),
                     count = x.shape.elements()](const KernelArguments& at) {
    LaunchFor(
        stream, count,
        LrnGradFunctor{at.in<void>(0), at.in<void>(1), at.out<void>(0), shape});
  });
}

template <typename T>
std::unique_ptr<Kernel> MakePoolOf(const CompileRequest& request,
                                   LaunchStream stream) {
  switch (request.node.op) {
    case Op::kMaxPool:
      return MakeMaxPool<T>(request, stream);
    case Op::kMaxPoolGrad:
      return MakeMaxPoolGrad<T>(request, stream);
    case Op::kAvgPool:
      return MakeAvgPool<T>(request, stream);
    case Op::kAvgPoolGrad:
      return MakeAvgPoolGrad<T>(request, stream);
    case Op::kGlobalAvgPool:
      return MakeGlobalAvgPool<T>(request, stream);
    case Op::kGlobalAvgPoolGrad:
      return MakeGlobalAvgPoolGrad<T>(request, stream);
    default:
      return nullptr;
  }
}

}  // namespace

KernelOr MakeImage(const CompileRequest& request,
                   const PortableContext& context) {
  switch (request.node.op) {
    case Op::kResize:
    case Op::kResizeGrad:
      return MakeResize(request, context);
    case Op::kLrn:
      return MakeLrn(request, context.stream);
    case Op::kLrnGrad:
      return MakeLrnGrad(request, context.stream);
    default:
      // Codes of 8 bits may be pooled, but not here.
      if (!IsFloating(InputOf(request, 0).dtype)) return nullptr;
      return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
        return MakePoolOf<typename decltype(tag)::Type>(request,
                                                        context.stream);
      });
  }
}

}  // namespace gpupool::engine::portable
