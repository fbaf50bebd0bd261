#include "engine/model/served_sizes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

template <typename... Parts>
absl::Status Refuse(const std::string& name, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension '", name, "' ", parts..., " (--dimension ", name, "=SIZES)"));
}

absl::StatusOr<ServedDimension> ReadDimension(const std::string& name,
                                              const v1::DimensionSizes& proto) {
  ServedDimension dimension{
      .name = name,
      .minimum = proto.minimum(),
      .maximum = proto.maximum(),
      .sizes = {proto.sizes().begin(), proto.sizes().end()}};
  if (!dimension.sizes.empty()) {
    if (proto.minimum() != 0 || proto.maximum() != 0) {
      return Refuse(name, "has a range and a list of sizes; give one of them");
    }
    if (proto.sizes_size() > kMaxListedSizes) {
      return Refuse(name, "lists ", proto.sizes_size(), " sizes; at most ",
                    kMaxListedSizes, " can be served, or a range of them");
    }
    for (size_t i = 1; i < dimension.sizes.size(); ++i) {
      if (dimension.sizes[i - 1] < dimension.sizes[i]) continue;
      return Refuse(name, "lists ", dimension.sizes[i], " after ",
                    dimension.sizes[i - 1], "; sizes must rise");
    }
    dimension.minimum = dimension.sizes.front();
    dimension.maximum = dimension.sizes.back();
  }
  if (dimension.minimum < 1 || dimension.maximum < dimension.minimum ||
      dimension.maximum > kMaxServedSize) {
    return Refuse(name, "is served from ", dimension.minimum, " to ",
                  dimension.maximum, "; sizes must rise, from 1 to at most ",
                  kMaxServedSize);
  }
  return dimension;
}

}  // namespace

bool ServedDimension::Takes(int64_t size) const {
  if (sizes.empty()) return size >= minimum && size <= maximum;
  return std::binary_search(sizes.begin(), sizes.end(), size);
}

std::string ServedDimension::Text() const {
  if (sizes.empty()) return absl::StrCat(minimum, " to ", maximum);
  return absl::StrJoin(sizes, ", ");
}

absl::StatusOr<ServedSizes> ReadServedSizes(const v1::OnnxModel& model) {
  ServedSizes served;
  if (model.served_dimensions_size() > kMaxServedDimensions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", model.served_dimensions_size(),
        " dimensions of several sizes; at most ", kMaxServedDimensions,
        " can be served: give the others one size"));
  }
  for (const auto& [name, sizes] : model.served_dimensions()) {
    if (name.empty()) return Refuse(name, "has no name");
    if (model.dimensions().contains(name)) {
      return Refuse(name, "has one size and several; give one of them");
    }
    ASSIGN_OR_RETURN(served.dimensions.emplace_back(),
                     ReadDimension(name, sizes));
  }
  // Maps of protobuf have no fixed order.
  std::sort(served.dimensions.begin(), served.dimensions.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  served.padding = {model.padding().begin(), model.padding().end()};
  for (const auto& [name, numbers] : model.bound_inputs()) {
    if (numbers.numbers_size() > static_cast<int>(kMaxBoundBytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", name, "' is bound to ", numbers.numbers_size(),
          " numbers; at most ", kMaxBoundBytes, " bytes can be"));
    }
    served.bound[name] = {numbers.numbers().begin(), numbers.numbers().end()};
  }
  return served;
}

}  // namespace gpupool::engine
