#include "client/files/float_bytes.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace gpupool::client {
namespace {

// Returns the upper half of the number's bits, rounded.
uint16_t FloatToBfloat(float number) {
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  // Rounding could turn NaN into an infinity.
  if (std::isnan(number)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float BfloatToFloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float number = 0;
  std::memcpy(&number, &wide, sizeof(number));
  return number;
}

}  // namespace

size_t FloatBytes(absl::string_view datatype) {
  if (datatype == "FP32") return sizeof(float);
  return datatype == "FP16" || datatype == "BF16" ? sizeof(uint16_t) : 0;
}

float HalfToFloat(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) {
    return sign * std::ldexp(static_cast<float>(mantissa), -24);
  }
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t FloatToHalf(float number) {
  const int sign = std::signbit(number) ? 0x8000 : 0;
  const float size = std::abs(number);
  if (std::isnan(number)) return static_cast<uint16_t>(sign | 0x7e00);
  // The middle between 65504 and the number that would come next.
  if (size >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  if (size < 0x1p-14f) {
    return static_cast<uint16_t>(
        sign | static_cast<int>(std::nearbyint(size * 0x1p24f)));
  }
  const int exponent = std::ilogb(size);
  // From 1024 to 2048. What is rounded up to 2048 carries into the exponent.
  const int mantissa =
      static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + mantissa));
}

void AppendFloats(absl::string_view datatype, absl::Span<const float> numbers,
                  std::string& bytes) {
  if (datatype == "FP32") {
    bytes.append(reinterpret_cast<const char*>(numbers.data()),
                 numbers.size() * sizeof(float));
    return;
  }
  for (const float number : numbers) {
    const uint16_t bits =
        datatype == "FP16" ? FloatToHalf(number) : FloatToBfloat(number);
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
}

void ReadFloats(absl::string_view datatype, absl::string_view bytes,
                absl::Span<float> numbers) {
  if (datatype == "FP32") {
    if (!bytes.empty()) {
      std::memcpy(numbers.data(), bytes.data(), bytes.size());
    }
    return;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
    numbers[i] = datatype == "FP16" ? HalfToFloat(bits) : BfloatToFloat(bits);
  }
}

}  // namespace gpupool::client
