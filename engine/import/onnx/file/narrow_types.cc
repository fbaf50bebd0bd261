#include "engine/import/onnx/file/narrow_types.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/tensor/convert.h"

namespace gpupool::engine::onnx_import {
namespace {

// The numbers of later versions of TensorProto.DataType than libonnx's.
constexpr int kFloat8E4M3Fn = 17;
constexpr int kFloat8E4M3Fnuz = 18;
constexpr int kFloat8E5M2 = 19;
constexpr int kFloat8E5M2Fnuz = 20;
constexpr int kUint4 = 21;
constexpr int kInt4 = 22;
constexpr int kFloat4E2M1 = 23;
constexpr int kFloat8E8M0 = 24;
constexpr int kUint2 = 25;
constexpr int kInt2 = 26;

constexpr NarrowFloat kNone{0, 0, 0, false, false};

constexpr NarrowType kTypes[] = {
    {kFloat8E4M3Fn,
     "FLOAT8E4M3FN",
     8,
     DType::kFloat16,
     true,
     {3, 7, 448, false, true}},
    {kFloat8E4M3Fnuz,
     "FLOAT8E4M3FNUZ",
     8,
     DType::kFloat16,
     true,
     {3, 8, 240, false, true}},
    {kFloat8E5M2,
     "FLOAT8E5M2",
     8,
     DType::kFloat16,
     true,
     {2, 15, 57344, true, true}},
    {kFloat8E5M2Fnuz,
     "FLOAT8E5M2FNUZ",
     8,
     DType::kFloat16,
     true,
     {2, 16, 57344, false, true}},
    {kUint4, "UINT4", 4, DType::kUint8, false, kNone},
    {kInt4, "INT4", 4, DType::kInt8, true, kNone},
    {kFloat4E2M1,
     "FLOAT4E2M1",
     4,
     DType::kFloat16,
     true,
     {1, 1, 6, false, false}},
    {kFloat8E8M0, "FLOAT8E8M0", 8, DType::kFloat32, false, kNone},
    {kUint2, "UINT2", 2, DType::kUint8, false, kNone},
    {kInt2, "INT2", 2, DType::kInt8, true, kNone},
};

// Returns whether the code without its sign stands for no finite number.
bool IsSpecial(const NarrowType& type, unsigned code, bool negative) {
  const NarrowFloat& real = type.real;
  if (!real.has_nan) return false;
  // The types whose names end in UZ have one special code: that of -0.
  if (type.data_type == kFloat8E4M3Fnuz || type.data_type == kFloat8E5M2Fnuz) {
    return negative && code == 0;
  }
  return type.data_type == kFloat8E4M3Fn ? code == 0x7f : code >= 0x7c;
}

double RealNumber(const NarrowType& type, unsigned code) {
  const NarrowFloat& real = type.real;
  const unsigned sign = 1u << (type.bits - 1);
  const bool negative = (code & sign) != 0;
  code &= sign - 1;
  if (IsSpecial(type, code, negative)) {
    if (!real.has_infinity || code != 0x7c) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    const double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  const unsigned one = 1u << real.mantissa_bits;
  const unsigned exponent = code / one, mantissa = code % one;
  const int scale = (exponent == 0 ? 1 : static_cast<int>(exponent)) -
                    real.bias - real.mantissa_bits;
  const double size =
      std::ldexp(exponent == 0 ? mantissa : one + mantissa, scale);
  return negative ? -size : size;
}

}  // namespace

int NarrowFloat::largest_exponent() const { return std::ilogb(largest); }

const NarrowType* FindNarrowType(int64_t data_type) {
  for (const NarrowType& type : kTypes) {
    if (type.data_type == data_type) return &type;
  }
  return nullptr;
}

double NarrowNumber(const NarrowType& type, unsigned code) {
  if (type.data_type == kFloat8E8M0) {
    if (code == 0xff) return std::numeric_limits<double>::quiet_NaN();
    return std::ldexp(1, static_cast<int>(code) - 127);
  }
  if (type.is_float()) return RealNumber(type, code);
  const int number = static_cast<int>(code);
  const int half = 1 << (type.bits - 1);
  return type.is_signed && number >= half ? number - 2 * half : number;
}

void CopyNarrow(const NarrowType& type, absl::Span<const std::byte> from,
                absl::Span<std::byte> to) {
  std::vector<double> numbers;
  for (unsigned code = 0; code < 1u << type.bits; ++code) {
    numbers.push_back(NarrowNumber(type, code));
  }
  const size_t size = SizeOf(type.held_as);
  std::vector<std::byte> table(numbers.size() * size);
  WriteFromDoubles(type.held_as, numbers, 1, table.data());
  const size_t per_byte = static_cast<size_t>(8 / type.bits);
  for (size_t i = 0; i < to.size() / size; ++i) {
    const auto byte = static_cast<unsigned>(from[i / per_byte]);
    const unsigned code = (byte >> (i % per_byte * type.bits)) %
                          static_cast<unsigned>(numbers.size());
    std::memcpy(to.data() + i * size, table.data() + code * size, size);
  }
}

}  // namespace gpupool::engine::onnx_import
