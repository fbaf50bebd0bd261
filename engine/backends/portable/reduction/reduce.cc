#include <utility>
#include <vector>

#include "engine/backends/portable/launch/choose_parts.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/reduction/reduce_functors.h"
#include "engine/base/align.h"

namespace gpupool::engine::portable {
namespace {

// Sums of fewer elements are made by one thread each, if there are more results
// than the device has threads.
constexpr int64_t kLongSum = 32;

bool IsHot(DType type) {
  return type == DType::kFloat32 || type == DType::kBFloat16 ||
         type == DType::kFloat16;
}

// Returns a walk over the axes in the given order.
Walk<1> WalkOver(const Value& x, const std::vector<int>& axes) {
  const auto strides = MemoryStrides(x.shape, x.layout);
  LoopNest loops;
  loops.strides.resize(1);
  for (const int axis : axes) {
    loops.sizes.push_back(x.shape[axis]);
    loops.strides[0].push_back(strides[static_cast<size_t>(axis)]);
  }
  return WalkOf<1>(std::move(loops));
}

// Returns the kept axes in the order of the result's memory. The result may
// keep reduced axes with size 1, which do not matter.
std::vector<int> KeptInOrder(const Value& x, const Value& y,
                             const std::vector<bool>& reduced) {
  std::vector<int> kept;
  if (y.shape.rank() == x.shape.rank()) {
    for (const int axis : MemoryOrder(y.shape.rank(), y.layout)) {
      if (!reduced[static_cast<size_t>(axis)]) kept.push_back(axis);
    }
    return kept;
  }
  std::vector<int> source;  // axis of x for each axis of y
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (!reduced[static_cast<size_t>(axis)]) source.push_back(axis);
  }
  for (const int axis : MemoryOrder(y.shape.rank(), y.layout)) {
    kept.push_back(source[static_cast<size_t>(axis)]);
  }
  return kept;
}

struct ReducePlan {
  Reducer reducer;
  ReduceShape shape;
  bool hot = false;      // whether there is a functor for the type
  bool grouped = false;  // whether groups make parts

  bool is_sum() const {
    return reducer.function == ReduceFunction::kSum ||
           reducer.function == ReduceFunction::kMean;
  }
};

ReducePlan PlanReduce(const Value& x, const Value& y,
                      const ReduceAttributes& reduce,
                      const PortableContext& context) {
  ReducePlan plan;
  plan.reducer = {reduce.function, x.dtype};
  std::vector<bool> reduced(static_cast<size_t>(x.shape.rank()), false);
  int64_t count = 1;
  for (const int axis : reduce.axes) {
    reduced[static_cast<size_t>(axis)] = true;
    count *= x.shape[axis];
  }
  std::vector<int> reduced_axes;
  int innermost = -1;
  for (const int axis : MemoryOrder(x.shape.rank(), x.layout)) {
    if (reduced[static_cast<size_t>(axis)]) reduced_axes.push_back(axis);
    if (x.shape[axis] > 1) innermost = axis;
  }
  ReduceShape& shape = plan.shape;
  shape.results = y.shape.elements();
  shape.kept = WalkOver(x, KeptInOrder(x, y, reduced));
  shape.reduced = WalkOver(x, reduced_axes);
  plan.hot = IsHot(x.dtype) && reduce.function != ReduceFunction::kProduct;
  const bool contiguous =
      innermost >= 0 && reduced[static_cast<size_t>(innermost)];
  const bool few = shape.results < context.resident_threads;
  // Groups pay where a thread per result would read scattered numbers or where
  // there are too few results to use all threads.
  plan.grouped = plan.hot && count >= kLongSum && (contiguous || few);
  const SumBy by = !plan.grouped ? SumBy::kThread
                   : contiguous  ? SumBy::kRow
                                 : SumBy::kColumns;
  shape.parts.count = count;
  if (plan.grouped || !plan.hot) {
    shape.parts =
        ChooseParts(by, shape.results, count, context.resident_threads);
  }
  return plan;
}

template <typename T, bool kSum>
void LaunchHot(LaunchStream stream, const ReducePlan& plan,
               const KernelArguments& at) {
  const T* x = at.in<T>(0);
  void* y = at.out<void>(0);
  if (plan.grouped) {
    LaunchRows(stream, plan.shape.parts.items(),
               SumPartsFunctor<T, kSum>{x, y, at.workspace<Number>(),
                                        plan.reducer, plan.shape});
  } else {
    LaunchFor(stream, plan.shape.results,
              SumEachFunctor<T, kSum>{x, y, plan.reducer, plan.shape});
  }
}

template <typename T>
void LaunchHot(LaunchStream stream, const ReducePlan& plan,
               const KernelArguments& at) {
  if (plan.is_sum()) {
    LaunchHot<T, true>(stream, plan, at);
  } else {
    LaunchHot<T, false>(stream, plan, at);
  }
}

void LaunchReduce(LaunchStream stream, const ReducePlan& plan,
                  const KernelArguments& at) {
  const ReduceShape& shape = plan.shape;
  const int64_t parts = shape.parts.parts;
  void* y = at.out<void>(0);
  auto* totals = at.workspace<Number>();
  if (!plan.hot) {
    LaunchFor(
        stream, shape.results * parts,
        ReduceEachFunctor{at.in<void>(0), y, totals, plan.reducer, shape});
  } else if (plan.reducer.type == DType::kFloat32) {
    LaunchHot<float>(stream, plan, at);
  } else if (plan.reducer.type == DType::kBFloat16) {
    LaunchHot<BFloat16>(stream, plan, at);
  } else {
    LaunchHot<Float16>(stream, plan, at);
  }
  // The parts' totals are combined by a second launch.
  if (parts == 1) return;
  LaunchRows(stream, shape.results,
             JoinPartsFunctor{totals, y, plan.reducer, shape.results, parts,
                              shape.parts.count});
}

std::unique_ptr<Kernel> MakeReduceKernel(const ReducePlan& plan,
                                         LaunchStream stream) {
  const int64_t totals = plan.shape.results * plan.shape.parts.parts;
  const uint64_t workspace =
      plan.shape.parts.parts == 1
          ? 0
          : static_cast<uint64_t>(totals) * sizeof(Number);
  return MakeKernel(
      [plan, stream](const KernelArguments& at) {
        LaunchReduce(stream, plan, at);
      },
      workspace);
}

KernelOr MakeArgReduce(const CompileRequest& request, LaunchStream stream) {
  const auto& reduce = request.node.get<ArgReduceAttributes>();
  const Value& x = InputOf(request, 0);
  const AxisView view = AxisViewOf(x.shape, reduce.axis);
  ArgReduceFunctor functor;
  functor.type = x.dtype;
  functor.maximum = reduce.maximum;
  functor.last = reduce.last;
  functor.cells = view.cells;
  functor.after = view.after;
  return MakeKernel([functor, stream, rows = view.before * view.after](
                        const KernelArguments& at) {
    ArgReduceFunctor bound = functor;
    bound.x = at.in<void>(0);
    bound.y = at.out<int64_t>(0);
    LaunchRows(stream, rows, bound);
  });
}

KernelOr MakeCumSum(const CompileRequest& request, LaunchStream stream) {
  const auto& sum = request.node.get<CumSumAttributes>();
  const Value& x = InputOf(request, 0);
  const AxisView view = AxisViewOf(x.shape, sum.axis);
  CumSumFunctor functor;
  functor.type = x.dtype;
  functor.exclusive = sum.exclusive;
  functor.reverse = sum.reverse;
  functor.cells = view.cells;
  functor.after = view.after;
  return MakeKernel([functor, stream, rows = view.before * view.after](
                        const KernelArguments& at) {
    CumSumFunctor bound = functor;
    bound.x = at.in<void>(0);
    bound.y = at.out<void>(0);
    LaunchFor(stream, rows, bound);
  });
}

// Inputs of one type that one functor takes together.
struct SquaresLot {
  SquaresFunctor functor;
  std::vector<size_t> inputs;
  int64_t first_sum = 0;
};

std::vector<SquaresLot> LotsOf(const CompileRequest& request) {
  std::vector<SquaresLot> lots;
  int64_t pieces = 0;
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    const Value& x = InputOf(request, i);
    if (lots.empty() || lots.back().functor.type != x.dtype ||
        lots.back().functor.value_count == SquaresFunctor::kMostValues) {
      lots.push_back({SquaresFunctor{}, {}, pieces});
      lots.back().functor.type = x.dtype;
      lots.back().functor.first_pieces[0] = 0;
    }
    SquaresLot& lot = lots.back();
    const int32_t at = lot.functor.value_count++;
    lot.inputs.push_back(i);
    lot.functor.counts[at] = x.shape.elements();
    const int64_t here = CeilDivide(x.shape.elements(), SquaresFunctor::kPiece);
    lot.functor.first_pieces[at + 1] =
        lot.functor.first_pieces[at] + static_cast<int32_t>(here);
    pieces += here;
  }
  return lots;
}

KernelOr MakeGlobalNorm(const CompileRequest& request, LaunchStream stream) {
  const std::vector<SquaresLot> lots = LotsOf(request);
  int64_t pieces = 0;
  for (const SquaresLot& lot : lots) {
    pieces += lot.functor.first_pieces[lot.functor.value_count];
  }
  NormFunctor norm;
  norm.pieces = pieces;
  norm.type = OutputOf(request, 0).dtype;
  return MakeKernel(
      [=](const KernelArguments& at) {
        auto* sums = at.workspace<double>();
        for (const SquaresLot& lot : lots) {
          SquaresFunctor bound = lot.functor;
          for (size_t k = 0; k < lot.inputs.size(); ++k) {
            bound.values[k] = at.in<void>(lot.inputs[k]);
          }
          bound.sums = sums + lot.first_sum;
          // Lots write to different parts of `sums`, which are then added in
          // one order.
          LaunchRows(stream, bound.first_pieces[bound.value_count], bound);
        }
        NormFunctor bound = norm;
        bound.sums = sums;
        bound.y = at.out<void>(0);
        LaunchRows(stream, 1, bound);
      },
      static_cast<uint64_t>(pieces) * sizeof(double));
}

}  // namespace

KernelOr MakeReduce(const CompileRequest& request,
                    const PortableContext& context) {
  const Node& node = request.node;
  const LaunchStream stream = context.stream;
  switch (node.op) {
    case Op::kArgReduce:
      return MakeArgReduce(request, stream);
    case Op::kCumSum:
      return MakeCumSum(request, stream);
    case Op::kGlobalNorm:
      return MakeGlobalNorm(request, stream);
    case Op::kColumnSum:
      return MakeReduceKernel(
          PlanReduce(InputOf(request, 0), OutputOf(request, 0),
                     {ReduceFunction::kSum, {0}, false}, context),
          stream);
    default:
      return MakeReduceKernel(
          PlanReduce(InputOf(request, 0), OutputOf(request, 0),
                     node.get<ReduceAttributes>(), context),
          stream);
  }
}

}  // namespace gpupool::engine::portable
