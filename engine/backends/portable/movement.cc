#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/backends/portable/copy_plan.h"
#include "engine/backends/portable/maker.h"
#include "engine/backends/portable/movement_functors.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::portable {
namespace {

std::vector<int64_t> DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

// An input and the output with their strides, and the order of the output's
// axes in memory.
struct Sides {
  const Value& x;
  const Value& y;
  std::vector<int64_t> from, to;
  std::vector<int> order;

  explicit Sides(const CompileRequest& request, size_t input = 0)
      : x(InputOf(request, input)),
        y(OutputOf(request, 0)),
        from(MemoryStrides(x.shape, x.layout)),
        to(MemoryStrides(y.shape, y.layout)),
        order(MemoryOrder(y.shape.rank(), y.layout)) {}

  uint64_t element_bytes() const { return SizeOf(y.dtype); }
};

// Loops over axes of `sizes` cells, in the target's memory order, with the
// strides of each axis in the source and in the target.
CopyPlan PlanOver(const Sides& s, const std::vector<int64_t>& sizes,
                  const std::vector<int64_t>& from,
                  const std::vector<int64_t>& to, int64_t first_from,
                  int64_t first_to) {
  LoopNest loops;
  loops.strides.resize(2);
  for (const int axis : s.order) {
    const auto i = static_cast<size_t>(axis);
    loops.sizes.push_back(sizes[i]);
    loops.strides[0].push_back(from[i]);
    loops.strides[1].push_back(to[i]);
  }
  return PlanCopy(std::move(loops), first_from, first_to, s.element_bytes());
}

// One input's copy.
struct InputCopy {
  size_t input = 0;
  CopyPlan plan;
};

// Copies into the output, maybe after a fill.
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
    std::byte* to = at.out<std::byte>(0);
    if (fills_) LaunchFill(stream, to, count_, fill_.data(), element_bytes_);
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

CopyPlan PlanTranspose(const Sides& s, const TransposeAttributes& transpose) {
  std::vector<int64_t> from;
  for (const int axis : transpose.permutation) {
    from.push_back(s.from[static_cast<size_t>(axis)]);
  }
  return PlanOver(s, DimsOf(s.y.shape), from, s.to, 0, 0);
}

// Walks the region of a slice in one value and all of another.
CopyPlan PlanSlice(const Sides& s, const SliceAttributes& slice,
                   bool gradient) {
  std::vector<int64_t> walk = gradient ? s.to : s.from;
  int64_t first = 0;
  for (size_t i = 0; i < walk.size(); ++i) {
    first += walk[i] * slice.starts[i];
    walk[i] *= slice.steps[i];
  }
  if (gradient) return PlanOver(s, slice.sizes, s.from, walk, 0, first);
  return PlanOver(s, slice.sizes, walk, s.to, first, 0);
}

SliceAttributes Inside(const PadAttributes& pad, const Shape& unpadded) {
  return {pad.before, std::vector<int64_t>(pad.before.size(), 1),
          DimsOf(unpadded)};
}

void AddConcat(const CompileRequest& request, CopyProgram& program) {
  const auto axis =
      static_cast<size_t>(request.node.get<AxisAttributes>().axis);
  int64_t offset = 0;
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    const Sides s(request, i);
    program.Add(i, PlanOver(s, DimsOf(s.x.shape), s.from, s.to, 0,
                            offset * s.to[axis]));
    offset += s.x.shape[static_cast<int>(axis)];
  }
}

CopyPlan PlanBroadcast(const Sides& s) {
  return PlanCopy(BroadcastLoops({&s.x}, s.y), 0, 0, s.element_bytes());
}

// A linear copy; of a reshape the layouts do not matter.
CopyPlan PlanReshape(const Sides& s) {
  LoopNest loops;
  loops.sizes = {s.y.shape.elements()};
  loops.strides = {{1}, {1}};
  return PlanCopy(std::move(loops), 0, 0, s.element_bytes());
}

// The sizes in the target's memory order.
Grid GridInOrder(const Sides& s) {
  std::vector<int64_t> sizes;
  for (const int axis : s.order) sizes.push_back(s.y.shape[axis]);
  return GridOf(sizes);
}

KernelOr MakePadding(const Sides& s, const PadAttributes& pad,
                     LaunchStream stream) {
  PadFunctor functor{};
  functor.element_bytes = static_cast<int32_t>(s.element_bytes());
  functor.reflect = pad.mode == PadMode::kReflect;
  functor.grid = GridInOrder(s);
  for (size_t at = 0; at < s.order.size(); ++at) {
    const auto axis = static_cast<size_t>(s.order[at]);
    functor.before[at] = pad.before[axis];
    functor.cells[at] = s.x.shape[s.order[at]];
    functor.strides[at] = s.from[axis];
  }
  const int64_t count = s.y.shape.elements();
  return MakeKernel([=](const KernelArguments& at) {
    PadFunctor bound = functor;
    bound.from = at.in<void>(0);
    bound.to = at.out<void>(0);
    LaunchFor(stream, count, bound);
  });
}

KernelOr MakePadGrad(const Sides& s, const PadAttributes& pad,
                     LaunchStream stream) {
  PadGradFunctor functor{};
  functor.type = s.y.dtype;
  functor.reflect = pad.mode == PadMode::kReflect;
  functor.grid = GridInOrder(s);
  for (size_t at = 0; at < s.order.size(); ++at) {
    const auto axis = static_cast<size_t>(s.order[at]);
    functor.before[at] = pad.before[axis];
    functor.after[at] = pad.after[axis];
    functor.strides[at] = s.from[axis];
  }
  const int64_t count = s.y.shape.elements();
  return MakeKernel([=](const KernelArguments& at) {
    PadGradFunctor bound = functor;
    bound.dy = at.in<void>(0);
    bound.dx = at.out<void>(0);
    LaunchFor(stream, count, bound);
  });
}

void AddCopies(const CompileRequest& request, const Sides& s,
               CopyProgram& program) {
  const Node& node = request.node;
  switch (node.op) {
    case Op::kReshape:
      return program.Add(0, PlanReshape(s));
    case Op::kTranspose:
      return program.Add(0, PlanTranspose(s, node.get<TransposeAttributes>()));
    case Op::kSlice:
      return program.Add(0, PlanSlice(s, node.get<SliceAttributes>(), false));
    case Op::kSliceGrad:
      program.Fill(s.y.dtype, 0);
      return program.Add(
          0, PlanSlice(s, node.get<SliceGradAttributes>().slice, true));
    case Op::kPad: {
      const auto& pad = node.get<PadAttributes>();
      program.Fill(s.y.dtype, pad.value);
      return program.Add(0, PlanSlice(s, Inside(pad, s.x.shape), true));
    }
    case Op::kPadGrad: {
      const auto& pad = node.get<PadAttributes>();
      return program.Add(0, PlanSlice(s, Inside(pad, s.y.shape), false));
    }
    case Op::kBroadcast:
      return program.Add(0, PlanBroadcast(s));
    case Op::kLayoutConvert:
      return program.Add(0, PlanOver(s, DimsOf(s.y.shape), s.from, s.to, 0, 0));
    default:
      return AddConcat(request, program);
  }
}

}  // namespace

KernelOr MakeMovement(const CompileRequest& request,
                      const PortableContext& context) {
  const Sides s(request);
  const Node& node = request.node;
  const LaunchStream stream = context.stream;
  if (node.op == Op::kPad || node.op == Op::kPadGrad) {
    const auto& pad = node.get<PadAttributes>();
    if (pad.mode != PadMode::kConstant) {
      return node.op == Op::kPad ? MakePadding(s, pad, stream)
                                 : MakePadGrad(s, pad, stream);
    }
  }
  CopyProgram program(s.y);
  AddCopies(request, s, program);
  return MakeKernel(
      [program = std::move(program), stream](const KernelArguments& at) {
        program.Run(stream, at);
      });
}

}  // namespace gpupool::engine::portable
