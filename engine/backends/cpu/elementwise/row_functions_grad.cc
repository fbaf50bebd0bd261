// Gradients of functions of one number: rows dy and x give dx.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "engine/backends/cpu/elementwise/row_functions_grad.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/elementwise/row_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

using V = FloatVector;
using C = RowConstants;

struct AbsSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    // The slope at 0 is 0.
    const V sign =
        hn::Sub(Truth(hn::Gt(x, Constant(0))), Truth(hn::Lt(x, Constant(0))));
    return hn::Mul(dy, sign);
  }
};
struct NegateSlope {
  HWY_INLINE V operator()(V dy, V, const C&) const { return hn::Neg(dy); }
};
struct ClipSlope {
  HWY_INLINE V operator()(V dy, V x, const C& c) const {
    const auto inside = hn::And(hn::Ge(x, c.alpha), hn::Le(x, c.beta));
    return hn::IfThenElseZero(inside, dy);
  }
};
struct ExpSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    return hn::Mul(dy, ExpOf(x));
  }
};
struct LogSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const { return hn::Div(dy, x); }
};
struct SqrtSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    return hn::Div(hn::Mul(dy, Constant(0.5f)), hn::Sqrt(x));
  }
};
struct ReciprocalSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    return hn::Neg(hn::Div(dy, hn::Mul(x, x)));
  }
};
struct ErfSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    const V decay = ExpOf(hn::Neg(hn::Mul(x, x)));
    // The slope is 2 / sqrt(pi) e^(-x^2).
    return hn::Mul(hn::Mul(dy, Constant(1.1283791670955126f)), decay);
  }
};
struct LeakyReluSlope {
  HWY_INLINE V operator()(V dy, V x, const C& c) const {
    return hn::IfThenElse(hn::Gt(x, Constant(0)), dy, hn::Mul(dy, c.alpha));
  }
};
struct EluSlope {
  HWY_INLINE V operator()(V dy, V x, const C& c) const {
    // Below 0 the function is alpha (e^x - 1).
    const V below = hn::Mul(c.alpha, ExpOf(x));
    return hn::IfThenElse(hn::Gt(x, Constant(0)), dy, hn::Mul(dy, below));
  }
};
struct SeluSlope {
  HWY_INLINE V operator()(V dy, V x, const C& c) const {
    // SELU is beta times ELU.
    return hn::Mul(c.beta, EluSlope()(dy, x, c));
  }
};
struct SoftplusSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    return hn::Mul(dy, SigmoidOf(x));
  }
};
struct SoftsignSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    const V d = hn::Add(Constant(1), hn::Abs(x));
    return hn::Div(dy, hn::Mul(d, d));
  }
};
struct HardSigmoidSlope {
  HWY_INLINE V operator()(V dy, V x, const C& c) const {
    const V y = hn::MulAdd(c.alpha, x, c.beta);
    const auto inside = hn::And(hn::Gt(y, Constant(0)), hn::Lt(y, Constant(1)));
    return hn::IfThenElseZero(inside, hn::Mul(dy, c.alpha));
  }
};
struct HardSwishSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    // Between -3 and 3 hard swish is x (x + 3) / 6. The slope is x / 3 + 0.5.
    V slope = hn::MulAdd(x, Constant(1.0f / 3), Constant(0.5f));
    slope = hn::IfThenElse(hn::Gt(x, Constant(3)), Constant(1), slope);
    slope = hn::IfThenElse(hn::Lt(x, Constant(-3)), Constant(0), slope);
    return hn::Mul(dy, slope);
  }
};
// The slope is s (1 + x (1 - s)) with s = sigmoid(x).
struct SiluSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    const V s = SigmoidOf(x);
    const V rest = hn::MulAdd(x, hn::Sub(Constant(1), s), Constant(1));
    return hn::Mul(dy, hn::Mul(s, rest));
  }
};
// The slope is t + x (1 - t^2) sigmoid(x) with t = tanh(softplus(x)).
struct MishSlope {
  HWY_INLINE V operator()(V dy, V x, const C&) const {
    const V t = TanhSoftplusOf(x);
    const V rest = hn::Mul(hn::NegMulAdd(t, t, Constant(1)), SigmoidOf(x));
    return hn::Mul(dy, hn::MulAdd(x, rest, t));
  }
};
struct ThresholdedReluSlope {
  HWY_INLINE V operator()(V dy, V x, const C& c) const {
    return hn::IfThenElseZero(hn::Gt(x, c.alpha), dy);
  }
};

RowFunction FindUnaryGrad(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kAbs:
      return BinaryRow<AbsSlope>;
    case UnaryFunction::kNegate:
      return BinaryRow<NegateSlope>;
    case UnaryFunction::kClip:
      return BinaryRow<ClipSlope>;
    case UnaryFunction::kExp:
      return BinaryRow<ExpSlope>;
    case UnaryFunction::kLog:
      return BinaryRow<LogSlope>;
    case UnaryFunction::kSqrt:
      return BinaryRow<SqrtSlope>;
    case UnaryFunction::kReciprocal:
      return BinaryRow<ReciprocalSlope>;
    case UnaryFunction::kErf:
      return BinaryRow<ErfSlope>;
    case UnaryFunction::kLeakyRelu:
      return BinaryRow<LeakyReluSlope>;
    case UnaryFunction::kElu:
      return BinaryRow<EluSlope>;
    case UnaryFunction::kSelu:
      return BinaryRow<SeluSlope>;
    case UnaryFunction::kSoftplus:
      return BinaryRow<SoftplusSlope>;
    case UnaryFunction::kSoftsign:
      return BinaryRow<SoftsignSlope>;
    case UnaryFunction::kHardSigmoid:
      return BinaryRow<HardSigmoidSlope>;
    case UnaryFunction::kHardSwish:
      return BinaryRow<HardSwishSlope>;
    case UnaryFunction::kSilu:
      return BinaryRow<SiluSlope>;
    case UnaryFunction::kMish:
      return BinaryRow<MishSlope>;
    case UnaryFunction::kThresholdedRelu:
      return BinaryRow<ThresholdedReluSlope>;
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
HWY_EXPORT(FindUnaryGrad);
}  // namespace

RowFunction UnaryGradRowFunction(UnaryFunction function) {
  return HWY_DYNAMIC_DISPATCH(FindUnaryGrad)(function);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
