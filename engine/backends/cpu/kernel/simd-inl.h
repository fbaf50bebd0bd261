// SIMD functions for kernel sources that Highway compiles once per target.
#if defined(GPUPOOL_ENGINE_BACKENDS_CPU_SIMD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef GPUPOOL_ENGINE_BACKENDS_CPU_SIMD_INL_H_
#undef GPUPOOL_ENGINE_BACKENDS_CPU_SIMD_INL_H_
#else
#define GPUPOOL_ENGINE_BACKENDS_CPU_SIMD_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 64 bytes, to which buffers are padded.
using FloatTag = hn::CappedTag<float, 16>;
using FloatVector = hn::Vec<FloatTag>;

HWY_INLINE int64_t FloatLanes() {
  return static_cast<int64_t>(hn::Lanes(FloatTag()));
}

// Loads `count` < lanes numbers and sets the other lanes to `fill`. Reads
// nothing beyond the numbers.
HWY_INLINE FloatVector LoadPart(const float* from, int64_t count, float fill) {
#if !HWY_MEM_OPS_MIGHT_FAULT
  const FloatTag d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), hn::Set(d, fill));
#else
  HWY_ALIGN float lanes[16];
  for (int64_t i = 0; i < FloatLanes(); ++i) {
    lanes[i] = i < count ? from[i] : fill;
  }
  return hn::Load(FloatTag(), lanes);
#endif
}

HWY_INLINE void StorePart(FloatVector v, float* to, int64_t count) {
#if !HWY_MEM_OPS_MIGHT_FAULT
  const FloatTag d;
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else
  HWY_ALIGN float lanes[16];
  hn::Store(v, FloatTag(), lanes);
  std::memcpy(to, lanes, static_cast<size_t>(count) * sizeof(float));
#endif
}

// Returns e^x for any x. NaN stays NaN, and the result is 0 below -87. With n
// the whole number nearest to x / ln 2, e^x is 2^n e^r, |r| <= ln(2) / 2. The
// polynomial for e^r is that of Cephes' expf, with an error of at most 2 units
// in the last place. It is shorter than Highway's Exp, which does not handle
// large or special numbers.
HWY_INLINE FloatVector ExpOf(FloatVector x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> whole;
  const FloatVector most = hn::Set(d, 89.5f);  // larger numbers give infinity
  const FloatVector bounded = hn::IfThenElse(hn::Gt(x, most), most, x);
  const FloatVector n =
      hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504088896341f)));
  FloatVector r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  FloatVector p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(hn::Mul(p, r), r, hn::Add(r, hn::Set(d, 1.0f)));
  // 2^n is computed as 2 * 2^(n - 1), since 2^128 does not fit float32.
  const auto exponent = hn::Add(hn::ConvertTo(whole, n), hn::Set(whole, 126));
  const FloatVector scale = hn::BitCast(d, hn::ShiftLeft<23>(exponent));
  const FloatVector y = hn::Mul(hn::Add(p, p), scale);
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Zero(d), y);
}

HWY_INLINE FloatVector SigmoidOf(FloatVector x) {
  const FloatVector one = hn::Set(FloatTag(), 1.0f);
  return hn::Div(one, hn::Add(one, ExpOf(hn::Neg(x))));
}

HWY_INLINE FloatVector TanhOf(FloatVector x) {
  const FloatVector limit = hn::Set(FloatTag(), 9.5f);
  const FloatVector bounded = hn::Max(hn::Neg(limit), hn::Min(x, limit));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(FloatTag(), bounded));
}

// Returns the error function of x with an error of at most 1.5e-7 (Abramowitz
// and Stegun, Handbook of Mathematical Functions, 7.1.26). `decay` must be
// exp(-x^2).
HWY_INLINE FloatVector ErfOf(FloatVector x, FloatVector decay) {
  const FloatTag d;
  const FloatVector one = hn::Set(d, 1.0f);
  const FloatVector t =
      hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f), hn::Abs(x), one));
  FloatVector p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  return hn::CopySign(hn::NegMulAdd(hn::Mul(p, t), decay, one), x);
}

// Reduces `count` numbers, first within lanes and then across them. The order
// depends only on the target.
template <class Combine>
HWY_INLINE FloatVector ReduceLanes(const float* x, int64_t count, float start,
                                   const Combine& combine) {
  const FloatTag d;
  FloatVector sum = hn::Set(d, start);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    sum = combine(sum, hn::LoadU(d, x + i));
  }
  if (i < count) sum = combine(sum, LoadPart(x + i, count - i, start));
  return sum;
}

HWY_INLINE float MaxOf(const float* x, int64_t count) {
  const FloatVector lanes = ReduceLanes(x, count, -HUGE_VALF,
                                        [](FloatVector a, FloatVector b)
                                            HWY_ATTR { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), lanes));
}

// Calls body(offset, vector) over `count` numbers of x and stores the results
// in y.
template <class Body>
HWY_INLINE void MapRow(const float* x, float* y, int64_t count,
                       const Body& body) {
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(body(hn::LoadU(FloatTag(), x + i)), FloatTag(), y + i);
  }
  if (i < count) {
    StorePart(body(LoadPart(x + i, count - i, 0.0f)), y + i, count - i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_SIMD_INL_H_
