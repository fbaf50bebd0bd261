#include "server/api/validation/field_range.h"

#include "absl/strings/str_cat.h"

namespace gpupool::server {

absl::Status CheckRange(absl::string_view field, double value,
                        const Range& range) {
  const bool above =
      value > range.low || (range.low_belongs && value == range.low);
  const bool below =
      value < range.high || (range.high_belongs && value == range.high);
  if (above && below) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be ", range.text));
}

}  // namespace gpupool::server
