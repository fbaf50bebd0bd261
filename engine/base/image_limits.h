// Limits of data sets of images. The daemon checks requests with them, and the
// engine what it reads.
#pragma once

#include <cstdint>

namespace gpupool::engine {

inline constexpr int kMaxImageFiles = 64;           // of one data set
inline constexpr uint32_t kMaxImageRowSide = 4096;  // of a row's image

}  // namespace gpupool::engine
