#include "engine/tensor/shape.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

std::string Text(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims) {
  absl::StatusOr<Shape> shape = Create({dims.begin(), dims.size()});
  GPUPOOL_CHECK(shape.ok());
  *this = *std::move(shape);
}

absl::StatusOr<Shape> Shape::CreateMaybeEmpty(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape has ", dims.size(), " dimensions; the limit is ", kMaxRank));
  }
  Shape shape;
  for (int64_t dim : dims) {
    if (dim < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", Text(dims), ": no dimension may be negative"));
    }
    // Divides instead of multiplying, which could overflow.
    if (shape.elements_ > 0 && dim > kMaxElements / shape.elements_) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", Text(dims), " has too many elements; the ",
                       "limit is ", kMaxElements));
    }
    shape.elements_ *= dim;
    shape.dims_[static_cast<size_t>(shape.rank_++)] = dim;
  }
  return shape;
}

absl::StatusOr<Shape> Shape::Create(absl::Span<const int64_t> dims) {
  for (int64_t dim : dims) {
    if (dim < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", Text(dims), ": every dimension must be at least 1"));
    }
  }
  return CreateMaybeEmpty(dims);
}

std::string Shape::ToString() const { return Text(dims()); }

}  // namespace gpupool::engine
