// Counts parts of a text. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace gpupool::client {

// Returns how often `part`, which is not empty, is in `text`.
inline size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace gpupool::client
