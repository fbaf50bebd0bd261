// The sizes for which a model is served: named dimensions with several sizes,
// and inputs whose numbers determine shapes. Pure functions and plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

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

struct ServedSizes {
  std::vector<ServedDimension> dimensions;  // by name
  // Number that pads an input, by the input's name.
  std::map<std::string, double> padding;
  // Numbers for planning with inputs that must be bound, by the input's name.
  std::map<std::string, std::vector<double>> bound;

  bool empty() const { return dimensions.empty() && bound.empty(); }
};

inline constexpr int kMaxServedDimensions = 4;
inline constexpr int kMaxListedSizes = 16;
inline constexpr int64_t kMaxServedSize = int64_t{1} << 31;
// Most bytes of the numbers of one bound input.
inline constexpr uint64_t kMaxBoundBytes = 4096;

// Reads the sizes of a spec. INVALID_ARGUMENT names the dimension, the value
// and the limit.
absl::StatusOr<ServedSizes> ReadServedSizes(const v1::OnnxModel& model);

}  // namespace gpupool::engine
