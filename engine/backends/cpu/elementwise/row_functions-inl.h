// Loops of row functions, for sources that Highway compiles once per target.
#if defined(GPUPOOL_ENGINE_BACKENDS_CPU_ROW_FUNCTIONS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef GPUPOOL_ENGINE_BACKENDS_CPU_ROW_FUNCTIONS_INL_H_
#undef GPUPOOL_ENGINE_BACKENDS_CPU_ROW_FUNCTIONS_INL_H_
#else
#define GPUPOOL_ENGINE_BACKENDS_CPU_ROW_FUNCTIONS_INL_H_
#endif

#include "engine/backends/cpu/elementwise/row_functions.h"
#include "engine/backends/cpu/kernel/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

HWY_INLINE FloatVector Constant(float x) { return hn::Set(FloatTag(), x); }

// alpha and beta, repeated in all lanes.
struct RowConstants {
  FloatVector alpha;
  FloatVector beta;
};

HWY_INLINE RowConstants ConstantsOf(const RowNumbers& numbers) {
  return {Constant(numbers.alpha), Constant(numbers.beta)};
}

// Stores F()(x, constants) for each element.
template <class F>
HWY_ATTR void UnaryRow(const float* const* x, float* y, int64_t count,
                       const RowNumbers& numbers) {
  const RowConstants constants = ConstantsOf(numbers);
  const float* a = x[0];
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(F()(hn::LoadU(FloatTag(), a + i), constants), FloatTag(), y + i);
  }
  if (i == count) return;
  const int64_t rest = count - i;
  StorePart(F()(LoadPart(a + i, rest, 0.0f), constants), y + i, rest);
}

// Stores F()(a, b, constants) for each pair of elements.
template <class F>
HWY_ATTR void BinaryRow(const float* const* x, float* y, int64_t count,
                        const RowNumbers& numbers) {
  const RowConstants constants = ConstantsOf(numbers);
  const float* a = x[0];
  const float* b = x[1];
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(F()(hn::LoadU(FloatTag(), a + i), hn::LoadU(FloatTag(), b + i),
                   constants),
               FloatTag(), y + i);
  }
  if (i == count) return;
  const int64_t rest = count - i;
  StorePart(
      F()(LoadPart(a + i, rest, 0.0f), LoadPart(b + i, rest, 0.0f), constants),
      y + i, rest);
}

template <class Mask>
HWY_INLINE FloatVector Truth(Mask mask) {
  return hn::IfThenElseZero(mask, Constant(1));
}

// Returns exp(x) - 1 for x <= 0, and 0 for x > 0.
HWY_INLINE FloatVector NegativeExpm1Of(FloatVector x) {
  const FloatVector low =
      hn::IfThenElse(hn::Gt(x, Constant(0)), Constant(0), x);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Expm1(FloatTag(), low));
}

// Returns max(x, 0) + log(1 + exp(-|x|)).
HWY_INLINE FloatVector SoftplusOf(FloatVector x) {
  const FloatVector decay = ExpOf(hn::Neg(hn::Abs(x)));
  const FloatVector above =
      hn::IfThenElse(hn::Lt(x, Constant(0)), Constant(0), x);
  return hn::Add(above, hn::Log1p(FloatTag(), decay));
}

// Returns tanh(log(1 + exp(x))) = (w^2 + 2w) / (w^2 + 2w + 2) with w = exp(x).
HWY_INLINE FloatVector TanhSoftplusOf(FloatVector x) {
  const FloatVector limit = Constant(20);
  const FloatVector w = ExpOf(hn::IfThenElse(hn::Gt(x, limit), limit, x));
  const FloatVector n = hn::Mul(w, hn::Add(w, Constant(2)));
  return hn::Div(n, hn::Add(n, Constant(2)));
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_ROW_FUNCTIONS_INL_H_
