// Functions of two and three rows, activations and their gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "engine/backends/cpu/elementwise/row_functions_binary.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/elementwise/row_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

using V = FloatVector;
using C = RowConstants;

struct AddFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const { return hn::Add(a, b); }
};
struct SubtractFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const { return hn::Sub(a, b); }
};
struct MultiplyFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const { return hn::Mul(a, b); }
};
struct DivideFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const { return hn::Div(a, b); }
};
// Returns y, but NaN where a or b is NaN.
HWY_INLINE V KeepNan(V a, V b, V y) {
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, y));
}
struct MinimumFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return KeepNan(a, b, hn::Min(a, b));
  }
};
struct MaximumFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return KeepNan(a, b, hn::Max(a, b));
  }
};
struct AndFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::And(hn::Ne(a, Constant(0)), hn::Ne(b, Constant(0))));
  }
};
struct OrFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::Or(hn::Ne(a, Constant(0)), hn::Ne(b, Constant(0))));
  }
};
struct XorFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::Xor(hn::Ne(a, Constant(0)), hn::Ne(b, Constant(0))));
  }
};
struct EqualFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::Eq(a, b));
  }
};
struct LessFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::Lt(a, b));
  }
};
struct LessOrEqualFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::Le(a, b));
  }
};
struct GreaterFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::Gt(a, b));
  }
};
struct GreaterOrEqualFunction {
  HWY_INLINE V operator()(V a, V b, const C&) const {
    return Truth(hn::Ge(a, b));
  }
};

RowFunction FindBinary(BinaryFunction function) {
  switch (function) {
    case BinaryFunction::kAdd:
      return BinaryRow<AddFunction>;
    case BinaryFunction::kSubtract:
      return BinaryRow<SubtractFunction>;
    case BinaryFunction::kMultiply:
      return BinaryRow<MultiplyFunction>;
    case BinaryFunction::kDivide:
      return BinaryRow<DivideFunction>;
    case BinaryFunction::kMinimum:
      return BinaryRow<MinimumFunction>;
    case BinaryFunction::kMaximum:
      return BinaryRow<MaximumFunction>;
    case BinaryFunction::kAnd:
      return BinaryRow<AndFunction>;
    case BinaryFunction::kOr:
      return BinaryRow<OrFunction>;
    case BinaryFunction::kXor:
      return BinaryRow<XorFunction>;
    case BinaryFunction::kEqual:
      return BinaryRow<EqualFunction>;
    case BinaryFunction::kLess:
      return BinaryRow<LessFunction>;
    case BinaryFunction::kLessOrEqual:
      return BinaryRow<LessOrEqualFunction>;
    case BinaryFunction::kGreater:
      return BinaryRow<GreaterFunction>;
    case BinaryFunction::kGreaterOrEqual:
      return BinaryRow<GreaterOrEqualFunction>;
    default:
      return nullptr;
  }
}

constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
constexpr float kGeluTanhScale = 0.79788456080286536f;  // sqrt(2 / pi)
// The factor is from Hendrycks and Gimpel, "Gaussian Error Linear Units"
// (2016).
constexpr float kGeluTanhCube = 0.044715f;

// Returns tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
HWY_INLINE V GeluTanhPart(V x) {
  const V cube = hn::Mul(hn::Mul(x, x), x);
  return TanhOf(hn::Mul(Constant(kGeluTanhScale),
                        hn::MulAdd(Constant(kGeluTanhCube), cube, x)));
}

struct CopyFunction {
  HWY_INLINE V operator()(V x, const C&) const { return x; }
};
struct TruthFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    return Truth(hn::Ne(x, Constant(0)));
  }
};
struct ReluFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    // Compares instead of taking the maximum, so that NaN stays.
    return hn::IfThenElse(hn::Lt(x, Constant(0)), Constant(0), x);
  }
};
struct SigmoidFunction {
  HWY_INLINE V operator()(V x, const C&) const { return SigmoidOf(x); }
};
struct TanhFunction {
  HWY_INLINE V operator()(V x, const C&) const { return TanhOf(x); }
};
struct GeluFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    const V z = hn::Mul(x, Constant(kSqrtHalf));
    const V decay = ExpOf(hn::Neg(hn::Mul(z, z)));
    const V half = hn::Mul(x, Constant(0.5f));
    // GELU is x (1 + erf(x / sqrt 2)) / 2.
    return hn::MulAdd(half, ErfOf(z, decay), half);
  }
};
struct GeluTanhFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    const V half = hn::Mul(x, Constant(0.5f));
    return hn::MulAdd(half, GeluTanhPart(x), half);
  }
};
struct ReluSlope {
  HWY_INLINE V operator()(V dy, V y, const C&) const {
    // The result is positive where the input is, so the input need not be kept.
    return hn::IfThenElseZero(hn::Gt(y, Constant(0)), dy);
  }
};
struct SigmoidSlope {
  HWY_INLINE V operator()(V dy, V y, const C&) const {
    // The slopes of sigmoid and tanh follow from the results.
    return hn::Mul(dy, hn::Mul(y, hn::Sub(Constant(1), y)));
  }
};
struct TanhSlope {
  HWY_INLINE V operator()(V dy, V y, const C&) const {
    return hn::Mul(dy, hn::NegMulAdd(y, y, Constant(1)));
  }
};
// The slope is (1 + erf(x / sqrt 2)) / 2 + x e^(-x^2/2) / sqrt(2 pi).
struct GeluSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    const V z = hn::Mul(x, Constant(kSqrtHalf));
    const V decay = ExpOf(hn::Neg(hn::Mul(z, z)));
    const V half = hn::MulAdd(ErfOf(z, decay), Constant(0.5f), Constant(0.5f));
    const V density = hn::Mul(decay, Constant(kInverseSqrtTwoPi));
    return hn::Mul(dy, hn::MulAdd(x, density, half));
  }
};
// With t = tanh(u(x)) the slope is (1 + t) / 2 + x (1 - t^2) u'(x) / 2.
struct GeluTanhSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    const V t = GeluTanhPart(x);
    const V slope = hn::Mul(
        Constant(kGeluTanhScale),
        hn::MulAdd(Constant(3 * kGeluTanhCube), hn::Mul(x, x), Constant(1)));
    const V half = hn::MulAdd(t, Constant(0.5f), Constant(0.5f));
    const V rest = hn::Mul(hn::NegMulAdd(t, t, Constant(1)), slope);
    return hn::Mul(dy, hn::MulAdd(hn::Mul(x, Constant(0.5f)), rest, half));
  }
};

HWY_INLINE V Choose(V condition, V a, V b) {
  return hn::IfThenElse(hn::Ne(condition, Constant(0)), a, b);
}

void WhereRow(const float* const* x, float* y, int64_t count,
              const RowNumbers&) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(Choose(hn::LoadU(d, x[0] + i), hn::LoadU(d, x[1] + i),
                      hn::LoadU(d, x[2] + i)),
               d, y + i);
  }
  // The rest is shorter than a vector.
  for (; i < count; ++i) y[i] = x[0][i] != 0 ? x[1][i] : x[2][i];
}

// Returns the function of an op whose only relevant attribute is GELU's form.
RowFunction FindPlain(Op op, bool tanh_form) {
  switch (op) {
    case Op::kAdd:
      return BinaryRow<AddFunction>;
    case Op::kRelu:
      return UnaryRow<ReluFunction>;
    case Op::kSigmoid:
      return UnaryRow<SigmoidFunction>;
    case Op::kTanh:
      return UnaryRow<TanhFunction>;
    case Op::kGelu:
      return tanh_form ? UnaryRow<GeluTanhFunction> : UnaryRow<GeluFunction>;
    case Op::kReluGrad:
      return BinaryRow<ReluSlope>;
    case Op::kSigmoidGrad:
      return BinaryRow<SigmoidSlope>;
    case Op::kTanhGrad:
      return BinaryRow<TanhSlope>;
    case Op::kGeluGrad:
      return tanh_form ? BinaryRow<GeluTanhSlope> : BinaryRow<GeluSlope>;
    case Op::kWhere:
      return WhereRow;
    default:
      return nullptr;
  }
}

RowFunction FindCast(bool to_bool) {
  return to_bool ? UnaryRow<TruthFunction> : UnaryRow<CopyFunction>;
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {
HWY_EXPORT(FindBinary);
HWY_EXPORT(FindPlain);
HWY_EXPORT(FindCast);
}  // namespace

RowFunction BinaryRowFunction(BinaryFunction function) {
  return HWY_DYNAMIC_DISPATCH(FindBinary)(function);
}

RowFunction PlainRowFunction(Op op, const Attributes& attributes) {
  if (const auto* cast = std::get_if<CastAttributes>(&attributes)) {
    return HWY_DYNAMIC_DISPATCH(FindCast)(cast->dtype == DType::kBool);
  }
  const auto* gelu = std::get_if<GeluAttributes>(&attributes);
  return HWY_DYNAMIC_DISPATCH(FindPlain)(
      op, gelu != nullptr && gelu->tanh_approximation);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
