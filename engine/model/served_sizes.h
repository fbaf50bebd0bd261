// The sizes for which a model is served: named dimensions with several sizes,
// dimensions that follow from them, and inputs whose numbers determine shapes.
// Pure functions and plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/size_expression.h"

namespace gpupool::v1 {
class OnnxModel;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct ServedDimension {
  std::string name;
  int64_t minimum = 1;
  int64_t maximum = 1;
  // Sizes in rising order, with minimum and maximum. Empty: every size between
  // them.
  std::vector<int64_t> sizes;

  bool Takes(int64_t size) const;
  // Returns "1 to 512" or "64, 128, 256".
  std::string Text() const;
};

// A dimension of an input or output whose size follows from others.
struct DerivedAxis {
  std::string port;
  int axis = 0;
  SizeExpression size;  // of names in ServedSizes::dimensions
};

struct ServedSizes {
  std::vector<ServedDimension> dimensions;  // by name
  // Sizes of named dimensions that follow from others, by name. Names of
  // dimensions that have one size are replaced by it.
  std::map<std::string, SizeExpression> derived;
  // Dimensions of inputs and outputs that the file gives such a name.
  std::vector<DerivedAxis> derived_axes;
  // Number that pads an input, by the input's name.
  std::map<std::string, double> padding;
  // Numbers for planning with inputs that must be bound, by the input's name.
  std::map<std::string, std::vector<double>> bound;

  bool empty() const { return dimensions.empty() && bound.empty(); }

  // Returns the value for the sizes of `dimensions`, in their order. The
  // expression may use no other names. INVALID_ARGUMENT when the value is
  // negative or cannot be computed; names the sizes.
  absl::StatusOr<int64_t> Size(const SizeExpression& expression,
                               absl::Span<const int64_t> sizes) const;
  // Returns the largest value for any served sizes. INVALID_ARGUMENT when it
  // cannot be computed.
  absl::StatusOr<int64_t> LargestSize(const SizeExpression& expression) const;
};

inline constexpr int kMaxServedDimensions = 4;
inline constexpr int kMaxListedSizes = 16;
inline constexpr int kMaxDerivedDimensions = 16;
inline constexpr int64_t kMaxServedSize = int64_t{1} << 31;
// Limits of the bytes of one bound input, and of those of all bound inputs in
// all programs that are kept: each program is found by them.
inline constexpr uint64_t kMaxBoundBytes = uint64_t{1} << 20;
inline constexpr uint64_t kMaxKeptBoundBytes = uint64_t{64} << 20;

// Reads the sizes of a spec. INVALID_ARGUMENT names the dimension, the value
// and the limit.
absl::StatusOr<ServedSizes> ReadServedSizes(const v1::OnnxModel& model);

// Declared names of the dimensions of an input or output; "" for one without a
// name.
struct DeclaredPort {
  std::string name;
  std::vector<std::string> axes;
};

// Fills in the derived sizes: those of the spec, and those of declared names
// that are expressions of dimensions in the spec. A declared name that is in
// the spec is no expression, and one that cannot be parsed is a name.
// INVALID_ARGUMENT names a wrong entry of the spec.
absl::Status AddDerivedSizes(const v1::OnnxModel& model,
                             absl::Span<const DeclaredPort> ports,
                             ServedSizes& served);

// Adds the derived sizes to `sizes`, which has those of all other dimensions.
// INVALID_ARGUMENT when one is negative or cannot be computed.
absl::Status AddDerivedTo(const ServedSizes& served,
                          absl::flat_hash_map<std::string, int64_t>& sizes);

}  // namespace gpupool::engine
