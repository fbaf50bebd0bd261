// Static shapes. Every Shape is valid: each dimension is at least 1 (0 is
// allowed by CreateMaybeEmpty), and it has at most kMaxElements elements, so
// byte counts of any element type fit 64 bits. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/tensor_limits.h"
#include "engine/tensor/dtype.h"

namespace gpupool::engine {

inline constexpr int64_t kMaxElements = int64_t{1} << 48;

class Shape {
 public:
  // Makes a scalar: rank 0, one element.
  Shape() = default;
  // Makes a shape that is known to be valid; aborts otherwise. Use Create for
  // input.
  Shape(std::initializer_list<int64_t> dims);

  // Makes a shape. INVALID_ARGUMENT for a rank above kMaxRank, a dimension
  // below 1, or more than kMaxElements elements (computed without overflow).
  static absl::StatusOr<Shape> Create(absl::Span<const int64_t> dims);
  // Makes a shape whose dimensions may be 0, for constants of imported graphs
  // without elements.
  static absl::StatusOr<Shape> CreateMaybeEmpty(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  // Returns the size of an axis; 0 <= axis < rank().
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t operator[](int axis) const { return dim(axis); }
  absl::Span<const int64_t> dims() const {
    return {dims_.data(), static_cast<size_t>(rank_)};
  }
  int64_t elements() const { return elements_; }
  uint64_t bytes(DType dtype) const {
    return static_cast<uint64_t>(elements_) * SizeOf(dtype);
  }

  // Returns "[32, 1, 8, 8]".
  std::string ToString() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};  // unused entries stay 0
  int rank_ = 0;
  int64_t elements_ = 1;
};

}  // namespace gpupool::engine
