// Elements of tensors as numbers. (Host and device; plain C++.)
//
// Hot functors are templates over float, BFloat16 and Float16 and compute in
// float. For other types and mixtures, the type is a value at run time and each
// element is a Number: exact in double or in int64.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/tensor/dtype_enum.h"

namespace gpupool::engine::portable {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

GPUPOOL_HOST_DEVICE inline float FloatOfBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
GPUPOOL_HOST_DEVICE inline uint32_t BitsOfFloat(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

GPUPOOL_HOST_DEVICE inline float ToFloat(float x) { return x; }
GPUPOOL_HOST_DEVICE inline float ToFloat(BFloat16 x) {
  return FloatOfBits(uint32_t{x.bits} << 16);
}
GPUPOOL_HOST_DEVICE inline float ToFloat(Float16 x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude < 0x400) {  // zero or subnormal: multiples of 2^-24
    const float y = static_cast<float>(magnitude) * 0x1p-24f;
    return FloatOfBits(BitsOfFloat(y) | sign);
  }
  // The exponent's bias changes from 15 to 127.
  const uint32_t wide = magnitude >= 0x7c00u
                            ? (magnitude << 13) | 0x7f800000u
                            : (magnitude << 13) + (uint32_t{127 - 15} << 23);
  return FloatOfBits(wide | sign);
#endif
}

// Returns `bits` without the lower `drop` bits, rounded to nearest, ties to
// even.
GPUPOOL_HOST_DEVICE inline uint32_t DropBits(uint32_t bits, int drop) {
  const uint32_t half = (1u << (drop - 1)) - 1;
  return (bits + half + ((bits >> drop) & 1)) >> drop;
}

// Returns the nearest element, ties to even. Keeps infinities and NaN.
template <typename T>
GPUPOOL_HOST_DEVICE inline T FromFloat(float x);
template <>
GPUPOOL_HOST_DEVICE inline float FromFloat<float>(float x) {
  return x;
}
template <>
GPUPOOL_HOST_DEVICE inline BFloat16 FromFloat<BFloat16>(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  BFloat16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  const uint32_t bits = BitsOfFloat(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>(DropBits(bits, 16))};
#endif
}
template <>
GPUPOOL_HOST_DEVICE inline Float16 FromFloat<Float16>(float x) {
#ifdef __CUDA_ARCH__
  Float16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const float magnitude = FloatOfBits(bits & 0x7fffffff);
  uint32_t result = 0x7e00;     // NaN
  if (magnitude >= 65520.0f) {  // rounds to infinity
    result = 0x7c00;
  } else if (magnitude >= 0x1p-14f) {  // normal
    result = DropBits((bits & 0x7fffffff) - (uint32_t{127 - 15} << 23), 13);
  } else if (magnitude < 0x1p-14f) {
    result = static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  return {static_cast<uint16_t>(result | sign)};
#endif
}

// The element type of a template argument.
template <typename T>
inline constexpr DType kTypeOf = DType::kFloat32;
template <>
inline constexpr DType kTypeOf<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kTypeOf<Float16> = DType::kFloat16;

GPUPOOL_HOST_DEVICE constexpr bool IsFloatingType(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat64 ||
         type == DType::kFloat16 || type == DType::kBFloat16;
}

// An element of any type. `real` holds floating types and `whole` the others,
// with bool as 0 or 1. The other member is 0.
struct Number {
  double real = 0;
  int64_t whole = 0;
};

GPUPOOL_HOST_DEVICE inline Number Real(double x) { return {x, 0}; }
GPUPOOL_HOST_DEVICE inline Number Whole(int64_t x) { return {0, x}; }

// Returns a double as an int64, rounded towards zero. Numbers outside give the
// nearest int64, NaN gives 0.
GPUPOOL_HOST_DEVICE inline int64_t ToWhole(double x) {
  if (!(x < 0x1p63)) return x != x ? 0 : INT64_MAX;
  return x < -0x1p63 ? INT64_MIN : static_cast<int64_t>(x);
}

GPUPOOL_HOST_DEVICE inline double ToDouble(DType type, Number x) {
  return IsFloatingType(type) ? x.real : static_cast<double>(x.whole);
}

// Returns the number that an element of the type holds after storing x.
// Integers wrap modulo 2^bits, floating types round, and bool is whether x is
// not 0.
GPUPOOL_HOST_DEVICE inline Number Hold(DType type, Number x) {
  switch (type) {
    case DType::kFloat32:
      return Real(static_cast<float>(x.real));
    case DType::kFloat64:
      return x;
    case DType::kInt32:
      return Whole(static_cast<int32_t>(x.whole));
    case DType::kInt64:
      return x;
    case DType::kUint8:
      return Whole(static_cast<uint8_t>(x.whole));
    case DType::kBool:
      return Whole(x.whole != 0);
    case DType::kInt8:
      return Whole(static_cast<int8_t>(x.whole));
    case DType::kFloat16:
      return Real(ToFloat(FromFloat<Float16>(static_cast<float>(x.real))));
    case DType::kBFloat16:
      return Real(ToFloat(FromFloat<BFloat16>(static_cast<float>(x.real))));
  }
  return x;
}

// Converts a number between types by the rules of CastAttributes.
GPUPOOL_HOST_DEVICE inline Number Convert(DType from, DType to, Number x) {
  if (to == DType::kBool) {
    return Whole(IsFloatingType(from) ? x.real != 0 : x.whole != 0);
  }
  if (IsFloatingType(to)) return Hold(to, Real(ToDouble(from, x)));
  return Hold(to, Whole(IsFloatingType(from) ? ToWhole(x.real) : x.whole));
}

template <typename T>
GPUPOOL_HOST_DEVICE inline const T* At(const void* data, int64_t i) {
  return static_cast<const T*>(data) + i;
}

// Returns element i of `data`.
GPUPOOL_HOST_DEVICE inline Number LoadNumber(DType type, const void* data,
                                             int64_t i) {
  switch (type) {
    case DType::kFloat32:
      return Real(*At<float>(data, i));
    case DType::kFloat64:
      return Real(*At<double>(data, i));
    case DType::kInt32:
      return Whole(*At<int32_t>(data, i));
    case DType::kInt64:
      return Whole(*At<int64_t>(data, i));
    case DType::kUint8:
      return Whole(*At<uint8_t>(data, i));
    case DType::kBool:
      return Whole(*At<uint8_t>(data, i) != 0);
    case DType::kInt8:
      return Whole(*At<int8_t>(data, i));
    case DType::kFloat16:
      return Real(ToFloat(*At<Float16>(data, i)));
    case DType::kBFloat16:
      return Real(ToFloat(*At<BFloat16>(data, i)));
  }
  return {};
}

// Stores x as element i of `data`, converted as Hold does.
GPUPOOL_HOST_DEVICE inline void StoreNumber(DType type, void* data, int64_t i,
                                            Number x) {
  switch (type) {
    case DType::kFloat32:
      static_cast<float*>(data)[i] = static_cast<float>(x.real);
      return;
    case DType::kFloat64:
      static_cast<double*>(data)[i] = x.real;
      return;
    case DType::kInt32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(x.whole);
      return;
    case DType::kInt64:
      static_cast<int64_t*>(data)[i] = x.whole;
      return;
    case DType::kUint8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(x.whole);
      return;
    case DType::kBool:
      static_cast<uint8_t*>(data)[i] = x.whole != 0 ? 1 : 0;
      return;
    case DType::kInt8:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(x.whole);
      return;
    case DType::kFloat16:
      static_cast<Float16*>(data)[i] =
          FromFloat<Float16>(static_cast<float>(x.real));
      return;
    case DType::kBFloat16:
      static_cast<BFloat16*>(data)[i] =
          FromFloat<BFloat16>(static_cast<float>(x.real));
      return;
  }
}

// Load and store an element of any type as a double.
GPUPOOL_HOST_DEVICE inline double LoadDouble(DType type, const void* data,
                                             int64_t i) {
  return ToDouble(type, LoadNumber(type, data, i));
}
GPUPOOL_HOST_DEVICE inline void StoreDouble(DType type, void* data, int64_t i,
                                            double x) {
  StoreNumber(type, data, i,
              IsFloatingType(type) ? Real(x) : Whole(ToWhole(x)));
}
// Returns element i of `data`, which is int64 if `wide`, else int32.
GPUPOOL_HOST_DEVICE inline int64_t LoadIndex(bool wide, const void* data,
                                             int64_t i) {
  return wide ? *At<int64_t>(data, i) : *At<int32_t>(data, i);
}

}  // namespace gpupool::engine::portable
