// The pure part of the random generator of philox.h, for the host and for GPUs.
#pragma once

#include <cstdint>

#include "engine/base/host_device.h"

namespace gpupool::engine {

struct PhiloxWords {
  uint32_t word[4];
};

// Returns block `block` of stream `stream` under `seed`: four random words.
GPUPOOL_HOST_DEVICE constexpr PhiloxWords PhiloxWordsOf(uint64_t seed,
                                                        uint64_t stream,
                                                        uint64_t block) {
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  PhiloxWords x = {
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * x.word[2];
    x = {{static_cast<uint32_t>(product1 >> 32) ^ x.word[1] ^ key0,
          static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ x.word[3] ^ key1,
          static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9;  // the golden ratio
    key1 += 0xBB67AE85;  // sqrt(3) - 1
  }
  return x;
}

// Returns a uniform float in [0, 1) with 24 random bits.
GPUPOOL_HOST_DEVICE constexpr float PhiloxUniformFloat(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

}  // namespace gpupool::engine
