// Counts in texts for users. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine {

// Returns "1 device", "2 devices" for the word "device".
inline std::string Counted(uint64_t count, absl::string_view word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

}  // namespace gpupool::engine
