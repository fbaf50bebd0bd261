// The shortest way to refuse an argument in words.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::engine {

// Returns INVALID_ARGUMENT with the parts as one text.
template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace gpupool::engine
