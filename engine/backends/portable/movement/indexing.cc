#include <algorithm>
#include <utility>
#include <vector>

#include "engine/backends/axis_run.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/movement/buckets.h"
#include "engine/backends/portable/movement/copy_plan.h"
#include "engine/backends/portable/movement/indexing_functors.h"

namespace gpupool::engine::portable {
namespace {

// With more chosen elements, every element is ranked instead.
constexpr int64_t kMostSelected = 64;

bool IsWide(const Value& indices) { return indices.dtype == DType::kInt64; }

TupleIndices TuplesOver(const CompileRequest& request,
                        const PortableContext& context, const Value& indices) {
  TupleIndices tuples{};
  tuples.wide = IsWide(indices);
  tuples.error = ErrorPlaceOf(request, context);
  return tuples;
}

// Tuples of indices, and the value [before, cells, after] whose cells they
// choose.
struct ChosenCells {
  TupleIndices tuples;
  bool shared = true;  // whether all of `before` use the same tuples
  int64_t count = 0;   // tuples for each of `before`
  AxisView view;       // of the value
};

// Makes a gather. The view counts `after` in words.
template <typename Word>
std::unique_ptr<Kernel> MakeGatherOf(const ChosenCells& chosen,
                                     LaunchStream stream) {
  const AxisView& view = chosen.view;
  GatherFunctor<Word> functor{};
  functor.tuples = chosen.tuples;
  functor.shared = chosen.shared;
  functor.cells = view.cells;
  functor.grid = GridOf({view.before, chosen.count, view.after});
  const int64_t count = view.before * chosen.count * view.after;
  return MakeKernel([=](const KernelArguments& at) {
    GatherFunctor<Word> bound = functor;
    bound.x = at.in<Word>(0);
    bound.tuples.indices = at.in<void>(1);
    bound.y = at.out<Word>(0);
    LaunchFor(stream, count, bound);
  });
}

// Makes a gather of y [before, tuples, after] from x [before, cells, after], in
// words as wide as `after` allows.
KernelOr MakeGatherRows(ChosenCells chosen, uint64_t element_bytes,
                        LaunchStream stream) {
  uint64_t bytes = element_bytes;
  while (bytes < 16 && chosen.view.after % 2 == 0) {
    bytes *= 2;
    chosen.view.after /= 2;
  }
  switch (bytes) {
    case 1:
      return MakeGatherOf<uint8_t>(chosen, stream);
    case 2:
      return MakeGatherOf<uint16_t>(chosen, stream);
    case 4:
      return MakeGatherOf<uint32_t>(chosen, stream);
    case 8:
      return MakeGatherOf<uint64_t>(chosen, stream);
    default:
      return MakeGatherOf<Word16>(chosen, stream);
  }
}

KernelOr MakeGather(const CompileRequest& request,
                    const PortableContext& context) {
  const Value& x = InputOf(request, 0);
  const Value& indices = InputOf(request, 1);
  const AxisRun run(x.shape, x.layout, request.node.get<AxisAttributes>().axis);
  const AxisView view{run.before, run.cells, run.after};
  TupleIndices tuples = TuplesOver(request, context, indices);
  tuples.cells[0] = view.cells;
  return MakeGatherRows({.tuples = tuples,
                         .shared = true,
                         .count = indices.shape.elements(),
                         .view = view},
                        SizeOf(x.dtype), context.stream);
}

// Returns how tuples of indices cut a value: [batch, cells, after].
AxisView ViewOfTuples(const Shape& x, int batch_dims, int length) {
  AxisView view;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int entry = axis - batch_dims;
    int64_t& part = entry < 0        ? view.before
                    : entry < length ? view.cells
                                     : view.after;
    part *= x[axis];
  }
  return view;
}

// Returns the tuples of indices into the axes of x from `batch_dims` on.
TupleIndices TuplesInto(const CompileRequest& request,
                        const PortableContext& context, int batch_dims) {
  const Shape& x = InputOf(request, 0).shape;
  const Value& indices = InputOf(request, 1);
  TupleIndices tuples = TuplesOver(request, context, indices);
  tuples.length = static_cast<int32_t>(indices.shape[indices.shape.rank() - 1]);
  for (int entry = 0; entry < tuples.length; ++entry) {
    tuples.cells[entry] = x[batch_dims + entry];
  }
  return tuples;
}

KernelOr MakeGatherNd(const CompileRequest& request,
                      const PortableContext& context) {
  const Value& x = InputOf(request, 0);
  const int batch_dims = request.node.get<GatherNdAttributes>().batch_dims;
  const TupleIndices tuples = TuplesInto(request, context, batch_dims);
  const AxisView view = ViewOfTuples(x.shape, batch_dims, tuples.length);
  // Each entry of the batch has its own tuples.
  const int64_t count =
      InputOf(request, 1).shape.elements() / tuples.length / view.before;
  return MakeGatherRows(
      {.tuples = tuples, .shared = false, .count = count, .view = view},
      SizeOf(x.dtype), context.stream);
}

KernelOr MakeGatherElements(const CompileRequest& request,
                            const PortableContext& context) {
  const Value& x = InputOf(request, 0);
  const Shape& y = OutputOf(request, 0).shape;
  GatherElementsFunctor functor{};
  functor.element_bytes = static_cast<int32_t>(SizeOf(x.dtype));
  functor.wide = IsWide(InputOf(request, 1));
  functor.axis = request.node.get<AxisAttributes>().axis;
  functor.cells = x.shape[functor.axis];
  const auto strides = MemoryStrides(x.shape, x.layout);
  std::copy(strides.begin(), strides.end(), functor.strides);
  functor.grid = GridOf({y.dims().begin(), y.dims().end()});
  functor.error = ErrorPlaceOf(request, context);
  return MakeKernel([functor, count = y.elements(),
                     stream = context.stream](const KernelArguments& at) {
    GatherElementsFunctor bound = functor;
    bound.x = at.in<void>(0);
    bound.indices = at.in<void>(1);
    bound.y = at.out<void>(0);
    LaunchFor(stream, count, bound);
  });
}

// Copies input 0 to output 0, unless they are the same memory.
void CopyInput(LaunchStream stream, const CopyPlan& plan,
               const KernelArguments& at) {
  if (at.in<std::byte>(0) != at.out<std::byte>(0)) {
    LaunchCopy(stream, plan, at.in<std::byte>(0), at.out<std::byte>(0));
  }
}

CopyPlan PlanWhole(const Value& x) {
  return PlanCopy({{x.shape.elements()}, {{1}, {1}}}, 0, 0, SizeOf(x.dtype));
}

KernelOr MakeScatterElements(const CompileRequest& request,
                             const PortableContext& context) {
  const auto& scatter = request.node.get<ScatterAttributes>();
  const Value& x = InputOf(request, 0);
  const Value& updates = InputOf(request, 2);
  const auto axis = static_cast<size_t>(scatter.axis);
  const auto from = MemoryStrides(updates.shape, updates.layout);
  const auto to = MemoryStrides(x.shape, x.layout);
  ScatterElementsFunctor functor{};
  functor.type = x.dtype;
  functor.reduction = scatter.reduction;
  functor.wide = IsWide(InputOf(request, 1));
  functor.length = updates.shape[scatter.axis];
  functor.cells = x.shape[scatter.axis];
  functor.update_step = from[axis];
  functor.y_step = to[axis];
  functor.error = ErrorPlaceOf(request, context);
  // One call takes all updates along the axis, so updates of one element apply
  // in their order.
  LoopNest loops;
  loops.strides.resize(2);
  for (size_t i = 0; i < to.size(); ++i) {
    if (i == axis) continue;
    loops.sizes.push_back(updates.shape[static_cast<int>(i)]);
    loops.strides[0].push_back(from[i]);
    loops.strides[1].push_back(to[i]);
  }
  const int64_t lanes = loops.count();
  functor.walk = WalkOf<2>(std::move(loops));
  return MakeKernel([functor, lanes, copy = PlanWhole(x),
                     stream = context.stream](const KernelArguments& at) {
    ScatterElementsFunctor bound = functor;
    bound.indices = at.in<void>(1);
    bound.updates = at.in<void>(2);
    bound.y = at.out<void>(0);
    // The scatter writes over the copy, so the copy is queued first.
    CopyInput(stream, copy, at);
    LaunchFor(stream, lanes, bound);
  });
}

KernelOr MakeScatterNd(const CompileRequest& request,
                       const PortableContext& context) {
  const Value& x = InputOf(request, 0);
  const TupleIndices tuples = TuplesInto(request, context, 0);
  const AxisView view = ViewOfTuples(x.shape, 0, tuples.length);
  const int64_t count = InputOf(request, 1).shape.elements() / tuples.length;
  // The buckets count in 32 bits.
  if (!BucketPlan::Fits(count, view.cells)) return nullptr;
  const BucketPlan plan(count, view.cells);
  ScatterRowsFunctor functor{};
  functor.type = x.dtype;
  functor.reduction = request.node.get<ScatterAttributes>().reduction;
  functor.grid = GridOf({view.cells, view.after});
  return MakeKernel(
      [=, stream = context.stream](const KernelArguments& at) {
        TupleIndices own = tuples;
        own.indices = at.in<void>(1);
        ScatterRowsFunctor bound = functor;
        bound.x = at.in<void>(0);
        bound.updates = at.in<void>(2);
        bound.y = at.out<void>(0);
        // The buckets keep the order of updates, and each element has one
        // writer.
        bound.buckets = plan.Launch(stream, own, at.workspace<std::byte>());
        LaunchFor(stream, view.cells * view.after, bound);
      },
      plan.workspace_bytes());
}

template <typename T>
KernelOr MakeGatherGradOf(const ChosenCells& chosen, LaunchStream stream) {
  const TupleIndices& tuples = chosen.tuples;
  const AxisView& view = chosen.view;
  const BucketPlan plan(chosen.count, view.cells);
  GatherGradFunctor<T> functor{};
  functor.tuples = chosen.count;
  functor.grid = GridOf({view.before, view.cells, view.after});
  return MakeKernel(
      [=, count = view.before * view.cells *
                  view.after](const KernelArguments& at) {
        TupleIndices own = tuples;
        own.indices = at.in<void>(1);
        GatherGradFunctor<T> bound = functor;
        bound.dy = at.in<T>(0);
        bound.dx = at.out<T>(0);
        bound.buckets = plan.Launch(stream, own, at.workspace<std::byte>());
        LaunchFor(stream, count, bound);
      },
      plan.workspace_bytes());
}

KernelOr MakeGatherGrad(const CompileRequest& request,
                        const PortableContext& context) {
  const auto& grad = request.node.get<GatherGradAttributes>();
  const Value& indices = InputOf(request, 1);
  const AxisView view = AxisViewOf(grad.input, grad.axis);
  const int64_t count = indices.shape.elements();
  if (!BucketPlan::Fits(count, view.cells)) return nullptr;
  TupleIndices tuples = TuplesOver(request, context, indices);
  tuples.cells[0] = view.cells;
  const ChosenCells chosen{
      .tuples = tuples, .shared = true, .count = count, .view = view};
  const LaunchStream stream = context.stream;
  switch (OutputOf(request, 0).dtype) {
    case DType::kFloat32:
      return MakeGatherGradOf<float>(chosen, stream);
    case DType::kBFloat16:
      return MakeGatherGradOf<BFloat16>(chosen, stream);
    case DType::kFloat16:
      return MakeGatherGradOf<Float16>(chosen, stream);
    default:
      return MakeGatherGradOf<double>(chosen, stream);
  }
}

KernelOr MakeTopK(const CompileRequest& request, LaunchStream stream) {
  const auto& top = request.node.get<TopKAttributes>();
  const Value& x = InputOf(request, 0);
  const AxisView view = AxisViewOf(x.shape, top.axis);
  // With many elements to choose, each element finds its own rank instead.
  if (top.k > kMostSelected) {
    RankFunctor functor{};
    functor.type = x.dtype;
    functor.largest = top.largest;
    functor.k = top.k;
    functor.grid = GridOf({view.before, view.cells, view.after});
    return MakeKernel([functor, stream,
                       count = x.shape.elements()](const KernelArguments& at) {
      RankFunctor bound = functor;
      bound.x = at.in<void>(0);
      bound.values = at.out<void>(0);
      bound.positions = at.out<int64_t>(1);
      LaunchFor(stream, count, bound);
    });
  }
  TopKFunctor functor{};
  functor.type = x.dtype;
  functor.largest = top.largest;
  functor.k = top.k;
  functor.cells = view.cells;
  functor.after = view.after;
  return MakeKernel([functor, stream, rows = view.before * view.after](
                        const KernelArguments& at) {
    TopKFunctor bound = functor;
    bound.x = at.in<void>(0);
    bound.values = at.out<void>(0);
    bound.positions = at.out<int64_t>(1);
    LaunchRows(stream, rows, bound);
  });
}

KernelOr MakeTreeWalk(const CompileRequest& request,
                      const PortableContext& context) {
  const Value& x = InputOf(request, 0);
  const Shape& y = OutputOf(request, 0).shape;
  TreeWalkFunctor functor{};
  functor.type = x.dtype;
  functor.cells = x.shape[1];
  functor.slots = InputOf(request, 1).shape[0];
  functor.trees = y[1];
  functor.levels = request.node.get<TreeWalkAttributes>().levels;
  functor.error = ErrorPlaceOf(request, context);
  return MakeKernel([functor, count = y.elements(),
                     stream = context.stream](const KernelArguments& at) {
    TreeWalkFunctor bound = functor;
    bound.x = at.in<void>(0);
    bound.columns = at.in<int32_t>(1);
    bound.thresholds = at.in<void>(2);
    bound.larger = at.in<int32_t>(3);
    bound.smaller = at.in<int32_t>(4);
    bound.roots = at.in<int32_t>(5);
    bound.y = at.out<int32_t>(0);
    LaunchFor(stream, count, bound);
  });
}

}  // namespace

KernelOr MakeIndexing(const CompileRequest& request,
                      const PortableContext& context) {
  switch (request.node.op) {
    case Op::kGather:
      return MakeGather(request, context);
    case Op::kGatherNd:
      return MakeGatherNd(request, context);
    case Op::kGatherElements:
      return MakeGatherElements(request, context);
    case Op::kScatterElements:
      return MakeScatterElements(request, context);
    case Op::kScatterNd:
      return MakeScatterNd(request, context);
    case Op::kTreeWalk:
      return MakeTreeWalk(request, context);
    case Op::kGatherGrad:
      return MakeGatherGrad(request, context);
    default:
      return MakeTopK(request, context.stream);
  }
}

}  // namespace gpupool::engine::portable
