// Static shapes. A Shape that exists is sound: every dimension is at least 1
// (0 where CreateMaybeEmpty made it) and the element count is at most
// kMaxElements, so byte counts of any element type fit 64 bits. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/tensor/dtype.h"

namespace gpupool::engine {

inline constexpr int64_t kMaxElements = int64_t{1} << 48;
inline constexpr int kMaxRank = 8;

class Shape {
 public:
  // A scalar: rank 0, one element.
  Shape() = default;
  // For shapes known to be sound; aborts otherwise. Use Create for input.
  Shape(std::initializer_list<int64_t> dims);

  // InvalidArgument: rank above kMaxRank, a dimension below 1, or more than
  // kMaxElements elements (computed without overflow).
  static absl::StatusOr<Shape> Create(absl::Span<const int64_t> dims);
  // The same with dimensions of 0 allowed: constants of imported graphs may
  // have no elements.
  static absl::StatusOr<Shape> CreateMaybeEmpty(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  // 0 <= axis < rank().
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t operator[](int axis) const { return dim(axis); }
  absl::Span<const int64_t> dims() const {
    return {dims_.data(), static_cast<size_t>(rank_)};
  }
  int64_t elements() const { return elements_; }
  uint64_t bytes(DType dtype) const {
    return static_cast<uint64_t>(elements_) * SizeOf(dtype);
  }

  // "[32, 1, 8, 8]"
  std::string ToString() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};  // unused ones stay 0
  int rank_ = 0;
  int64_t elements_ = 1;
};

}  // namespace gpupool::engine
