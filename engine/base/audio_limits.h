// Limits of data sets of recordings. The daemon checks requests with them, and
// the engine what it reads.
#pragma once

#include <cstdint>

namespace gpupool::engine {

// The most numbers of a row: samples times channels.
inline constexpr uint32_t kMaxAudioRowNumbers = 1 << 24;
inline constexpr uint32_t kMaxAudioChannels = 32;
inline constexpr uint32_t kMaxAudioRate = 1'000'000;  // samples a second

}  // namespace gpupool::engine
