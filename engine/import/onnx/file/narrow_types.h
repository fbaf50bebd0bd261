// The element types of ONNX with 8 bits or less that the engine has no type of
// its own for: float8, float4, and integers of 2 and 4 bits. They are held in
// the next wider type, which has all of their numbers. Constant tables and pure
// functions, usable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/tensor/dtype.h"

namespace gpupool::engine::onnx_import {

// A type with a sign, an exponent and a mantissa (ONNX's docs/technical/
// float8.md). 1.m * 2^(e - bias), and 0.m * 2^(1 - bias) where e is 0.
struct NarrowFloat {
  int mantissa_bits;
  int bias;
  double largest;
  bool has_infinity;
  bool has_nan;

  // Returns the exponents of the smallest and the largest normal number.
  int smallest_exponent() const { return 1 - bias; }
  int largest_exponent() const;
};

struct NarrowType {
  int data_type;  // TensorProto.DataType
  absl::string_view name;
  int bits;
  DType held_as;
  bool is_signed;
  NarrowFloat real;  // for floating types but FLOAT8E8M0

  bool is_float() const { return IsFloating(held_as); }
  // Returns whether numbers can be rounded to the type.
  bool is_rounded_to() const { return real.largest > 0; }
  // Returns the bytes that the file has for so many elements.
  uint64_t stored_bytes(uint64_t elements) const {
    return (elements * static_cast<uint64_t>(bits) + 7) / 8;
  }
};

// Returns nullptr when the TensorProto.DataType is none of these types.
const NarrowType* FindNarrowType(int64_t data_type);

// Returns the number that a code of the type stands for.
double NarrowNumber(const NarrowType& type, unsigned code);

// Converts elements as they are stored, the first ones in the lowest bits, to
// the type that they are held as. `to` determines how many.
void CopyNarrow(const NarrowType& type, absl::Span<const std::byte> from,
                absl::Span<std::byte> to);

}  // namespace gpupool::engine::onnx_import
