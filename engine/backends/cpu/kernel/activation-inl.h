// Activations of epilogues as functions of vectors, for sources that Highway
// compiles once per target.
#if defined(GPUPOOL_ENGINE_BACKENDS_CPU_ACTIVATION_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef GPUPOOL_ENGINE_BACKENDS_CPU_ACTIVATION_INL_H_
#undef GPUPOOL_ENGINE_BACKENDS_CPU_ACTIVATION_INL_H_
#else
#define GPUPOOL_ENGINE_BACKENDS_CPU_ACTIVATION_INL_H_
#endif

#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/graph/attributes.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Returns x bounded to low .. high. NaN stays.
HWY_INLINE FloatVector ClipOf(FloatVector x, FloatVector low,
                              FloatVector high) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(hn::Max(x, low), high));
}

HWY_INLINE FloatVector LeakyReluOf(FloatVector x, FloatVector slope) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(FloatTag())), hn::Mul(slope, x), x);
}

// Returns x / (1 + e^-x) with a relative error of at most 4e-6. With n the
// whole number nearest to t = -x / ln 2, e^-x is 2^n 2^(t - n). Adding a large
// number rounds t and leaves n in the lowest bits of the sum. The polynomial
// has the least relative error for 2^f on -1/2 .. 1/2 among those of degree
// 5, 7.5e-8. NaN stays, and the result is 0 below -87.
HWY_INLINE FloatVector SiluOf(FloatVector x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> whole;
  const FloatVector most = hn::Set(d, 87.0f);
  const FloatVector low = hn::Neg(most);
  const FloatVector bounded = hn::Min(hn::Max(x, low), most);
  const FloatVector t = hn::Mul(bounded, hn::Set(d, -1.44269504f));
  const FloatVector large = hn::Set(d, 12582912.0f);  // 1.5 * 2^23
  const FloatVector sum = hn::Add(t, large);
  const FloatVector f = hn::Sub(t, hn::Sub(sum, large));
  FloatVector p = hn::Set(d, 1.327643054e-3f);
  p = hn::MulAdd(p, f, hn::Set(d, 9.675541100e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550713402e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.402211973e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931469670e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.000000072f));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(whole, sum));
  const FloatVector decay =
      hn::BitCast(d, hn::Add(hn::BitCast(whole, p), power));
  const FloatVector y = hn::Div(x, hn::Add(decay, hn::Set(d, 1.0f)));
  return hn::IfThenElse(hn::Lt(x, low), hn::Mul(x, hn::Zero(d)), y);
}

HWY_INLINE FloatVector HardSwishOf(FloatVector x) {
  const FloatTag d;
  const FloatVector line =
      hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
  return hn::Mul(x, ClipOf(line, hn::Zero(d), hn::Set(d, 1.0f)));
}

HWY_INLINE FloatVector UnaryOf(const UnaryAttributes& unary, FloatVector x) {
  const FloatTag d;
  const FloatVector alpha = hn::Set(d, static_cast<float>(unary.alpha));
  switch (unary.function) {
    case UnaryFunction::kClip:
      return ClipOf(x, alpha, hn::Set(d, static_cast<float>(unary.beta)));
    case UnaryFunction::kLeakyRelu:
      return LeakyReluOf(x, alpha);
    case UnaryFunction::kSilu:
      return SiluOf(x);
    default:
      return HardSwishOf(x);
  }
}

// Applies the activation of an epilogue, which must not be a GELU.
HWY_INLINE FloatVector Activate(const Epilogue& epilogue, FloatVector x) {
  switch (epilogue.activation) {
    case Activation::kRelu:
      return hn::Max(x, hn::Zero(FloatTag()));
    case Activation::kSigmoid:
      return SigmoidOf(x);
    case Activation::kTanh:
      return TanhOf(x);
    case Activation::kUnary:
      return UnaryOf(epilogue.unary, x);
    default:
      return x;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_ACTIVATION_INL_H_
