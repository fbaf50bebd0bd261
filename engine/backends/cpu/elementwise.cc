// Add, activations and their gradients, scale and shift. Each is a functor on
// one or two vectors; buffers are padded, so there are no tails.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/elementwise.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/function_kernel.h"
#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cpu/parallel.h"
#include "engine/backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
constexpr float kGeluTanhScale = 0.79788456080286536f;  // sqrt(2 / pi)
constexpr float kGeluTanhCube = 0.044715f;

HWY_INLINE FloatVector Constant(float x) { return hn::Set(FloatTag(), x); }

// tanh(sqrt(2/pi) (x + 0.044715 x^3))
HWY_INLINE FloatVector GeluTanhPart(FloatVector x) {
  const FloatVector cube = hn::Mul(hn::Mul(x, x), x);
  return TanhOf(hn::Mul(Constant(kGeluTanhScale),
                        hn::MulAdd(Constant(kGeluTanhCube), cube, x)));
}

struct AddOp {
  HWY_INLINE FloatVector operator()(FloatVector a, FloatVector b) const {
    return hn::Add(a, b);
  }
};
struct ReluOp {
  HWY_INLINE FloatVector operator()(FloatVector x, FloatVector) const {
    return hn::IfThenElse(hn::Lt(x, Constant(0)), Constant(0), x);
  }
};
struct SigmoidOp {
  HWY_INLINE FloatVector operator()(FloatVector x, FloatVector) const {
    return SigmoidOf(x);
  }
};
struct TanhOp {
  HWY_INLINE FloatVector operator()(FloatVector x, FloatVector) const {
    return TanhOf(x);
  }
};
struct GeluOp {
  HWY_INLINE FloatVector operator()(FloatVector x, FloatVector) const {
    const FloatVector z = hn::Mul(x, Constant(kSqrtHalf));
    const FloatVector decay = ExpOf(hn::Neg(hn::Mul(z, z)));
    const FloatVector half = hn::Mul(x, Constant(0.5f));
    return hn::MulAdd(half, ErfOf(z, decay), half);
  }
};
struct GeluTanhOp {
  HWY_INLINE FloatVector operator()(FloatVector x, FloatVector) const {
    const FloatVector half = hn::Mul(x, Constant(0.5f));
    return hn::MulAdd(half, GeluTanhPart(x), half);
  }
};
struct ReluGradOp {
  HWY_INLINE FloatVector operator()(FloatVector dy, FloatVector y) const {
    return hn::IfThenElseZero(hn::Gt(y, Constant(0)), dy);
  }
};
struct SigmoidGradOp {
  HWY_INLINE FloatVector operator()(FloatVector dy, FloatVector y) const {
    return hn::Mul(dy, hn::Mul(y, hn::Sub(Constant(1), y)));
  }
};
struct TanhGradOp {
  HWY_INLINE FloatVector operator()(FloatVector dy, FloatVector y) const {
    return hn::Mul(dy, hn::NegMulAdd(y, y, Constant(1)));
  }
};
// d/dx = (1 + erf(x / sqrt 2)) / 2 + x e^(-x^2/2) / sqrt(2 pi)
struct GeluGradOp {
  HWY_INLINE FloatVector operator()(FloatVector dy, FloatVector x) const {
    const FloatVector z = hn::Mul(x, Constant(kSqrtHalf));
    const FloatVector decay = ExpOf(hn::Neg(hn::Mul(z, z)));
    const FloatVector half =
        hn::MulAdd(ErfOf(z, decay), Constant(0.5f), Constant(0.5f));
    const FloatVector density = hn::Mul(decay, Constant(kInverseSqrtTwoPi));
    return hn::Mul(dy, hn::MulAdd(x, density, half));
  }
};
// With t = tanh(u(x)): (1 + t) / 2 + x (1 - t^2) u'(x) / 2
struct GeluTanhGradOp {
  HWY_INLINE FloatVector operator()(FloatVector dy, FloatVector x) const {
    const FloatVector t = GeluTanhPart(x);
    const FloatVector slope = hn::Mul(
        Constant(kGeluTanhScale),
        hn::MulAdd(Constant(3 * kGeluTanhCube), hn::Mul(x, x), Constant(1)));
    const FloatVector half = hn::MulAdd(t, Constant(0.5f), Constant(0.5f));
    const FloatVector rest = hn::Mul(hn::NegMulAdd(t, t, Constant(1)), slope);
    return hn::Mul(dy, hn::MulAdd(hn::Mul(x, Constant(0.5f)), rest, half));
  }
};

// y[i] = op(a[i], b[i]) for i in [begin, end), up to the padding. `begin` is
// a multiple of 16.
template <class Operation>
HWY_INLINE void Apply(const float* a, const float* b, float* y, int64_t begin,
                      int64_t end) {
  const Operation operation;
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    hn::Store(
        operation(hn::Load(FloatTag(), a + i), hn::Load(FloatTag(), b + i)),
        FloatTag(), y + i);
  }
}

#define GPUPOOL_ELEMENTWISE(Name)                                    \
  void Name(const float* a, const float* b, float* y, int64_t begin, \
            int64_t end) {                                           \
    Apply<Name##Op>(a, b, y, begin, end);                            \
  }
GPUPOOL_ELEMENTWISE(Add)
GPUPOOL_ELEMENTWISE(Relu)
GPUPOOL_ELEMENTWISE(Sigmoid)
GPUPOOL_ELEMENTWISE(Tanh)
GPUPOOL_ELEMENTWISE(Gelu)
GPUPOOL_ELEMENTWISE(GeluTanh)
GPUPOOL_ELEMENTWISE(ReluGrad)
GPUPOOL_ELEMENTWISE(SigmoidGrad)
GPUPOOL_ELEMENTWISE(TanhGrad)
GPUPOOL_ELEMENTWISE(GeluGrad)
GPUPOOL_ELEMENTWISE(GeluTanhGrad)
#undef GPUPOOL_ELEMENTWISE

void ScaleShiftRow(const float* x, const float* scale, const float* shift,
                   float* y, int64_t count) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, scale + i),
                          hn::LoadU(d, shift + i)),
               d, y + i);
  }
  for (; i < count; ++i) y[i] = x[i] * scale[i] + shift[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(Add);
HWY_EXPORT(Relu);
HWY_EXPORT(Sigmoid);
HWY_EXPORT(Tanh);
HWY_EXPORT(Gelu);
HWY_EXPORT(GeluTanh);
HWY_EXPORT(ReluGrad);
HWY_EXPORT(SigmoidGrad);
HWY_EXPORT(TanhGrad);
HWY_EXPORT(GeluGrad);
HWY_EXPORT(GeluTanhGrad);
HWY_EXPORT(ScaleShiftRow);

using Range = void (*)(const float*, const float*, float*, int64_t, int64_t);

Range RangeOf(const Node& node) {
  const auto* gelu = std::get_if<GeluAttributes>(&node.attributes);
  const bool tanh_form = gelu != nullptr && gelu->tanh_approximation;
  switch (node.op) {
    case Op::kAdd:
      return HWY_DYNAMIC_DISPATCH(Add);
    case Op::kRelu:
      return HWY_DYNAMIC_DISPATCH(Relu);
    case Op::kSigmoid:
      return HWY_DYNAMIC_DISPATCH(Sigmoid);
    case Op::kTanh:
      return HWY_DYNAMIC_DISPATCH(Tanh);
    case Op::kGelu:
      return tanh_form ? HWY_DYNAMIC_DISPATCH(GeluTanh)
                       : HWY_DYNAMIC_DISPATCH(Gelu);
    case Op::kReluGrad:
      return HWY_DYNAMIC_DISPATCH(ReluGrad);
    case Op::kSigmoidGrad:
      return HWY_DYNAMIC_DISPATCH(SigmoidGrad);
    case Op::kTanhGrad:
      return HWY_DYNAMIC_DISPATCH(TanhGrad);
    default:
      return tanh_form ? HWY_DYNAMIC_DISPATCH(GeluTanhGrad)
                       : HWY_DYNAMIC_DISPATCH(GeluGrad);
  }
}

KernelOr MakeScaleShift(const CompileRequest& request, int threads) {
  const int64_t rows = InputOf(request, 0).shape[0];
  const int64_t columns = InputOf(request, 1).shape.elements();
  const auto row = HWY_DYNAMIC_DISPATCH(ScaleShiftRow);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        row(at.in(0) + r * columns, at.in(1), at.in(2), at.out(0) + r * columns,
            columns);
      }
    });
  });
}

}  // namespace

KernelOr MakeElementwise(const CompileRequest& request,
                         const CpuContext& context) {
  const int threads = context.ThreadsForBytes(OutputOf(request, 0).bytes());
  if (request.node.op == Op::kScaleShift) {
    return MakeScaleShift(request, threads);
  }
  const int64_t count = OutputOf(request, 0).shape.elements();
  const size_t second = request.node.inputs.size() - 1;
  const Range range = RangeOf(request.node);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, count, 16, [&](int64_t begin, int64_t end) {
      range(at.in(0), at.in(second), at.out(0), begin, end);
    });
  });
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
