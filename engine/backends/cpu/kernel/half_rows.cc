#include "engine/backends/cpu/kernel/half_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernel/half_rows.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

using HalfBits = hn::Rebind<uint16_t, FloatTag>;

void FloatsFromBfloat(const uint16_t* from, float* to, int64_t count) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> bits;
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const auto half = hn::LoadU(HalfBits(), from + i);
    const auto whole = hn::ShiftLeft<16>(hn::PromoteTo(bits, half));
    hn::StoreU(hn::BitCast(d, whole), d, to + i);
  }
  for (; i < count; ++i) to[i] = FloatFromBFloat16(from[i]);
}

void BfloatFromFloats(const float* from, uint16_t* to, int64_t count) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> bits;
  const hn::RebindToSigned<FloatTag> whole;
  const auto half = hn::Set(bits, 0x7fff);
  const auto one = hn::Set(bits, 1);
  const auto quiet = hn::Set(bits, 0x40);
  int64_t i = 0;
  // Adding 0x7fff plus the lowest kept bit rounds to nearest, ties to even.
  // That could turn a NaN into infinity, so NaN is cut off and made quiet
  // instead.
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const auto x = hn::LoadU(d, from + i);
    const auto b = hn::BitCast(bits, x);
    const auto upper = hn::ShiftRight<16>(b);
    const auto rounded =
        hn::ShiftRight<16>(hn::Add(hn::Add(b, half), hn::And(upper, one)));
    const auto nan = hn::RebindMask(bits, hn::IsNaN(x));
    const auto result = hn::IfThenElse(nan, hn::Or(upper, quiet), rounded);
    hn::StoreU(hn::DemoteTo(HalfBits(), hn::BitCast(whole, result)), HalfBits(),
               to + i);
  }
  for (; i < count; ++i) to[i] = BFloat16FromFloat(from[i]);
}

// Whether the target has instructions for these conversions.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define GPUPOOL_HALF_LOOP_ 1
#else
#define GPUPOOL_HALF_LOOP_ 0
#endif

void FloatsFromFloat16(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
#if GPUPOOL_HALF_LOOP_
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const auto x = hn::BitCast(half, hn::LoadU(HalfBits(), from + i));
    hn::StoreU(hn::PromoteTo(d, x), d, to + i);
  }
#endif
  for (; i < count; ++i) to[i] = FloatFromFloat16(from[i]);
}

void Float16FromFloats(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
#if GPUPOOL_HALF_LOOP_
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const auto x = hn::DemoteTo(half, hn::LoadU(d, from + i));
    hn::StoreU(hn::BitCast(HalfBits(), x), HalfBits(), to + i);
  }
#endif
  for (; i < count; ++i) to[i] = Float16FromFloat(from[i]);
}

#undef GPUPOOL_HALF_LOOP_

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(FloatsFromBfloat);
HWY_EXPORT(BfloatFromFloats);
HWY_EXPORT(FloatsFromFloat16);
HWY_EXPORT(Float16FromFloats);

}  // namespace

void FloatsFromHalf(DType dtype, const uint16_t* from, float* to,
                    int64_t count) {
  if (dtype == DType::kBFloat16) {
    HWY_DYNAMIC_DISPATCH(FloatsFromBfloat)(from, to, count);
  } else {
    HWY_DYNAMIC_DISPATCH(FloatsFromFloat16)(from, to, count);
  }
}

void HalfFromFloats(DType dtype, const float* from, uint16_t* to,
                    int64_t count) {
  if (dtype == DType::kBFloat16) {
    HWY_DYNAMIC_DISPATCH(BfloatFromFloats)(from, to, count);
  } else {
    HWY_DYNAMIC_DISPATCH(Float16FromFloats)(from, to, count);
  }
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
