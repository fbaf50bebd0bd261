#include "engine/tensor/half.h"

#include <bit>
#include <cmath>

namespace gpupool::engine {
namespace {

constexpr uint32_t kFloat32Infinity = 0x7f800000;
constexpr uint32_t kFloat16Infinity = 0x7c00;
constexpr uint32_t kFloat16Nan = 0x7e00;
// The smallest number that rounds to infinity.
constexpr float kFloat16Overflow = 65520.0f;
constexpr float kFloat16SmallestNormal = 0x1p-14f;
constexpr float kFloat16SmallestSubnormal = 0x1p-24f;

// Returns `bits` without the lowest `drop` bits, rounded to nearest even. A
// carry into the exponent gives the next power of two, as it should.
uint32_t DropBits(uint32_t bits, int drop) {
  const uint32_t half = (1u << (drop - 1)) - 1;
  return (bits + half + ((bits >> drop) & 1)) >> drop;
}

}  // namespace

float FloatFromFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude < 0x400) {  // zero or subnormal
    // Scaling by 2^-24 is exact and normalises the number.
    const float x = static_cast<float>(magnitude) * kFloat16SmallestSubnormal;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) | sign);
  }
  // Adjusts the exponent's bias from 15 to 127.
  uint32_t wide = (magnitude << 13) + (uint32_t{127 - 15} << 23);
  if (magnitude >= kFloat16Infinity)
    wide = (magnitude << 13) | kFloat32Infinity;
  return std::bit_cast<float>(wide | sign);
}

uint16_t Float16FromFloat(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const float magnitude = std::fabs(x);
  // NaN fails all comparisons below and keeps this value.
  uint32_t result = kFloat16Nan;
  if (magnitude >= kFloat16Overflow) {
    result = kFloat16Infinity;
  } else if (magnitude >= kFloat16SmallestNormal) {
    result = DropBits((bits & 0x7fffffff) - (uint32_t{127 - 15} << 23), 13);
  } else if (magnitude < kFloat16SmallestNormal) {
    // Subnormals are multiples of 2^-24; nearbyint rounds to even.
    result = static_cast<uint32_t>(
        std::nearbyint(magnitude / kFloat16SmallestSubnormal));
  }
  return static_cast<uint16_t>(result | sign);
}

float FloatFromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

uint16_t BFloat16FromFloat(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  // Sets a bit of the fraction: dropping bits could turn NaN into infinity.
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>(DropBits(bits, 16));
}

}  // namespace gpupool::engine
