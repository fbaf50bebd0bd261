#include "engine/backends/portable/launch/device_status.h"

#include "absl/strings/str_cat.h"

namespace gpupool::engine::portable {

absl::Status StatusOf(const DeviceError& error, Op op,
                      absl::string_view source) {
  switch (error.code) {
    case kNoDeviceError:
      return absl::OkStatus();
    case kIndexOutside:
      return absl::InvalidArgumentError(absl::StrCat(
          OpName(op), " of '", source, "': index ", error.value,
          " lies outside -", error.limit, " .. ", error.limit - 1));
    case kLabelOutside:
      return absl::InvalidArgumentError(
          absl::StrCat(OpName(op), " of '", source, "': label ", error.value,
                       " lies outside 0 .. ", error.limit - 1));
    default:
      return absl::InternalError(absl::StrCat(OpName(op), " of '", source,
                                              "' reported error ", error.code));
  }
}

}  // namespace gpupool::engine::portable
