// Functions of one row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "engine/backends/cpu/elementwise/row_functions_unary.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <cmath>

#include "engine/backends/cpu/elementwise/row_functions-inl.h"
#include "engine/backends/cpu/kernel/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

using V = FloatVector;
using C = RowConstants;

struct AbsFunction {
  HWY_INLINE V operator()(V x, const C&) const { return hn::Abs(x); }
};
struct NegateFunction {
  HWY_INLINE V operator()(V x, const C&) const { return hn::Neg(x); }
};
struct SignFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    const V above = Truth(hn::Gt(x, Constant(0)));
    const V below = Truth(hn::Lt(x, Constant(0)));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Sub(above, below));
  }
};
struct ClipFunction {
  HWY_INLINE V operator()(V x, const C& c) const {
    return ClipOf(x, c.alpha, c.beta);
  }
};
struct ExpFunction {
  HWY_INLINE V operator()(V x, const C&) const { return ExpOf(x); }
};
struct LogFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    const V zero = Constant(0);
    const V infinity = Constant(HUGE_VALF);
    // Highway's Log takes only positive finite numbers.
    V y = hn::Log(FloatTag(), x);
    y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
    y = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(FloatTag()), y);
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, infinity)), x, y);
  }
};
struct SqrtFunction {
  HWY_INLINE V operator()(V x, const C&) const { return hn::Sqrt(x); }
};
struct ReciprocalFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    return hn::Div(Constant(1), x);
  }
};
struct FloorFunction {
  HWY_INLINE V operator()(V x, const C&) const { return hn::Floor(x); }
};
struct CeilFunction {
  HWY_INLINE V operator()(V x, const C&) const { return hn::Ceil(x); }
};
struct RoundFunction {
  HWY_INLINE V operator()(V x, const C&) const { return hn::Round(x); }
};
// Near 0, where the result is small, the error of ErfOf would be large in
// proportion. There it is the Taylor series 2 / sqrt(pi) * (x - x^3 / 3 + x^5 /
// 10 - ...), which is exact to 3e-8 of the result.
struct ErfFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    const V square = hn::Mul(x, x);
    V p = Constant(-8.548327e-4f);
    p = hn::MulAdd(p, square, Constant(5.2239776e-3f));
    p = hn::MulAdd(p, square, Constant(-2.6866171e-2f));
    p = hn::MulAdd(p, square, Constant(1.1283792e-1f));
    p = hn::MulAdd(p, square, Constant(-3.7612639e-1f));
    p = hn::MulAdd(p, square, Constant(1.1283792f));
    const V far = ErfOf(x, ExpOf(hn::Neg(square)));
    const V y =
        hn::IfThenElse(hn::Lt(hn::Abs(x), Constant(0.5f)), hn::Mul(p, x), far);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
};
struct LeakyReluFunction {
  HWY_INLINE V operator()(V x, const C& c) const {
    return LeakyReluOf(x, c.alpha);
  }
};
struct EluFunction {
  HWY_INLINE V operator()(V x, const C& c) const {
    return hn::IfThenElse(hn::Lt(x, Constant(0)),
                          hn::Mul(c.alpha, NegativeExpm1Of(x)), x);
  }
};
struct SeluFunction {
  HWY_INLINE V operator()(V x, const C& c) const {
    const V below = hn::Mul(c.alpha, NegativeExpm1Of(x));
    return hn::Mul(c.beta, hn::IfThenElse(hn::Gt(x, Constant(0)), x, below));
  }
};
struct SoftplusFunction {
  HWY_INLINE V operator()(V x, const C&) const { return SoftplusOf(x); }
};
struct SoftsignFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    return hn::Div(x, hn::Add(Constant(1), hn::Abs(x)));
  }
};
struct HardSigmoidFunction {
  HWY_INLINE V operator()(V x, const C& c) const {
    return ClipOf(hn::MulAdd(c.alpha, x, c.beta), Constant(0), Constant(1));
  }
};
struct HardSwishFunction {
  HWY_INLINE V operator()(V x, const C&) const { return HardSwishOf(x); }
};
struct SiluFunction {
  HWY_INLINE V operator()(V x, const C&) const { return SiluOf(x); }
};
struct MishFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    return hn::Mul(x, TanhSoftplusOf(x));
  }
};
struct ShrinkFunction {
  HWY_INLINE V operator()(V x, const C& c) const {
    const V above = hn::IfThenElseZero(hn::Gt(x, c.alpha), hn::Sub(x, c.beta));
    const V y =
        hn::IfThenElse(hn::Lt(x, hn::Neg(c.alpha)), hn::Add(x, c.beta), above);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
};
struct ThresholdedReluFunction {
  HWY_INLINE V operator()(V x, const C& c) const {
    return hn::IfThenElseZero(hn::Or(hn::IsNaN(x), hn::Gt(x, c.alpha)), x);
  }
};
struct IsNanFunction {
  HWY_INLINE V operator()(V x, const C&) const { return Truth(hn::IsNaN(x)); }
};
struct NotFunction {
  HWY_INLINE V operator()(V x, const C&) const {
    return Truth(hn::Eq(x, Constant(0)));
  }
};

RowFunction FindUnary(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kAbs:
      return UnaryRow<AbsFunction>;
    case UnaryFunction::kNegate:
      return UnaryRow<NegateFunction>;
    case UnaryFunction::kSign:
      return UnaryRow<SignFunction>;
    case UnaryFunction::kClip:
      return UnaryRow<ClipFunction>;
    case UnaryFunction::kExp:
      return UnaryRow<ExpFunction>;
    case UnaryFunction::kLog:
      return UnaryRow<LogFunction>;
    case UnaryFunction::kSqrt:
      return UnaryRow<SqrtFunction>;
    case UnaryFunction::kReciprocal:
      return UnaryRow<ReciprocalFunction>;
    case UnaryFunction::kFloor:
      return UnaryRow<FloorFunction>;
    case UnaryFunction::kCeil:
      return UnaryRow<CeilFunction>;
    case UnaryFunction::kRound:
      return UnaryRow<RoundFunction>;
    case UnaryFunction::kErf:
      return UnaryRow<ErfFunction>;
    case UnaryFunction::kLeakyRelu:
      return UnaryRow<LeakyReluFunction>;
    case UnaryFunction::kElu:
      return UnaryRow<EluFunction>;
    case UnaryFunction::kSelu:
      return UnaryRow<SeluFunction>;
    case UnaryFunction::kSoftplus:
      return UnaryRow<SoftplusFunction>;
    case UnaryFunction::kSoftsign:
      return UnaryRow<SoftsignFunction>;
    case UnaryFunction::kHardSigmoid:
      return UnaryRow<HardSigmoidFunction>;
    case UnaryFunction::kHardSwish:
      return UnaryRow<HardSwishFunction>;
    case UnaryFunction::kSilu:
      return UnaryRow<SiluFunction>;
    case UnaryFunction::kMish:
      return UnaryRow<MishFunction>;
    case UnaryFunction::kShrink:
      return UnaryRow<ShrinkFunction>;
    case UnaryFunction::kThresholdedRelu:
      return UnaryRow<ThresholdedReluFunction>;
    case UnaryFunction::kIsNan:
      return UnaryRow<IsNanFunction>;
    case UnaryFunction::kNot:
      return UnaryRow<NotFunction>;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {
HWY_EXPORT(FindUnary);
}  // namespace

RowFunction UnaryRowFunction(UnaryFunction function) {
  return HWY_DYNAMIC_DISPATCH(FindUnary)(function);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
