// Limits of the categories of text columns. The daemon checks those that a
// request gives, and the engine those that it finds.
#pragma once

#include <cstddef>

namespace gpupool::engine {

inline constexpr size_t kMaxCategories = 10'000;      // of a column
inline constexpr size_t kMaxCategoryBytes = 256;      // of one name
inline constexpr size_t kMaxCategoryNames = 1 << 20;  // bytes of all names

}  // namespace gpupool::engine
