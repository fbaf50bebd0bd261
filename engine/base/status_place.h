// Says in an error what it is about. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine {

// Returns the error with "PLACE: " in front of its text. OK stays OK.
inline absl::Status AtPlace(absl::string_view place,
                            const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(place, ": ", status.message()));
}

}  // namespace gpupool::engine
