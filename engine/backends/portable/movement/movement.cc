#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/backends/movement_copies.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/movement/copy_plan.h"
#include "engine/backends/portable/movement/movement_functors.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::portable {
namespace {

// The copy of one input.
struct InputCopy {
  size_t input = 0;
  CopyPlan plan;
};

// Copies into the output, after a fill if there is one.
class CopyProgram {
 public:
  explicit CopyProgram(const Value& y)
      : count_(y.shape.elements()), element_bytes_(SizeOf(y.dtype)) {}

  void Fill(DType dtype, double number) {
    fills_ = true;
    WriteFromDoubles(dtype, {number}, 1, fill_.data());
  }
  void Add(size_t input, const CopyPlan& plan) {
    copies_.push_back({input, plan});
  }

  void Run(LaunchStream stream, const KernelArguments& at) const {
    // Launches of a stream run in order, so the copies overwrite the fill.
    std::byte* to = at.out<std::byte>(0);
    if (fills_) LaunchFill(stream, to, count_, {fill_.data(), element_bytes_});
    for (const InputCopy& copy : copies_) {
      LaunchCopy(stream, copy.plan, at.in<std::byte>(copy.input), to);
    }
  }

 private:
  int64_t count_;
  uint64_t element_bytes_;
  bool fills_ = false;
  std::array<std::byte, 8> fill_{};
  std::vector<InputCopy> copies_;
};

// The axes of a padded value or of its gradient, in the result's memory order.
struct PadAxes {
  Grid grid;  // of the result
  std::vector<int> order;
  std::vector<int64_t> strides;  // of the input

  PadAxes(const Value& x, const Value& y)
      : order(MemoryOrder(y.shape.rank(), y.layout)),
        strides(MemoryStrides(x.shape, x.layout)) {
    std::vector<int64_t> sizes;
    for (const int axis : order) sizes.push_back(y.shape[axis]);
    grid = GridOf(sizes);
  }
};

KernelOr MakePadding(const CompileRequest& request, LaunchStream stream) {
  const auto& pad = request.node.get<PadAttributes>();
  const Value& x = InputOf(request, 0);
  const Value& y = OutputOf(request, 0);
  const PadAxes axes(x, y);
  PadFunctor functor{};
  functor.element_bytes = static_cast<int32_t>(SizeOf(y.dtype));
  functor.reflect = pad.mode == PadMode::kReflect;
  functor.grid = axes.grid;
  for (size_t at = 0; at < axes.order.size(); ++at) {
    const auto axis = static_cast<size_t>(axes.order[at]);
    functor.before[at] = pad.before[axis];
    functor.cells[at] = x.shape[axes.order[at]];
    functor.strides[at] = axes.strides[axis];
  }
  return MakeKernel([=, count = y.shape.elements()](const KernelArguments& at) {
    PadFunctor bound = functor;
    bound.from = at.in<void>(0);
    bound.to = at.out<void>(0);
    LaunchFor(stream, count, bound);
  });
}

KernelOr MakePadGrad(const CompileRequest& request, LaunchStream stream) {
  const auto& pad = request.node.get<PadAttributes>();
  const Value& dx = OutputOf(request, 0);
  const PadAxes axes(InputOf(request, 0), dx);
  PadGradFunctor functor{};
  functor.type = dx.dtype;
  functor.reflect = pad.mode == PadMode::kReflect;
  functor.grid = axes.grid;
  for (size_t at = 0; at < axes.order.size(); ++at) {
    const auto axis = static_cast<size_t>(axes.order[at]);
    functor.before[at] = pad.before[axis];
    functor.after[at] = pad.after[axis];
    functor.strides[at] = axes.strides[axis];
  }
  return MakeKernel(
      [=, count = dx.shape.elements()](const KernelArguments& at) {
        PadGradFunctor bound = functor;
        bound.dy = at.in<void>(0);
        bound.dx = at.out<void>(0);
        LaunchFor(stream, count, bound);
      });
}

}  // namespace

KernelOr MakeMovement(const CompileRequest& request,
                      const PortableContext& context) {
  const Node& node = request.node;
  const LaunchStream stream = context.stream;
  const Value& y = OutputOf(request, 0);
  const auto movement = CopiesOf(request.graph, node);
  // The remaining movements are pads that copies cannot express.
  if (!movement.has_value()) {
    return node.op == Op::kPad ? MakePadding(request, stream)
                               : MakePadGrad(request, stream);
  }
  CopyProgram program(y);
  if (movement->fill.has_value()) program.Fill(y.dtype, *movement->fill);
  for (const StridedCopy& copy : movement->copies) {
    program.Add(copy.input,
                PlanCopy(copy.loops, copy.from, copy.to, SizeOf(y.dtype)));
  }
  return MakeKernel(
      [program = std::move(program), stream](const KernelArguments& at) {
        program.Run(stream, at);
      });
}

}  // namespace gpupool::engine::portable
