// Units of sizes in the tests of memory.
#pragma once

#include <cstdint>

namespace gpupool::engine {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;

}  // namespace gpupool::engine
