// The one random generator of the project: Philox4x32-10 (Salmon, Moraes,
// Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
//
// It is counter based: a block of four 32-bit words is a pure function of
// (seed, stream, block index), so a stream can be entered anywhere, and the
// same words come out on every device and with every number of threads.
//   key      seed low, seed high
//   counter  block low, block high, stream low, stream high
// The classes of streams that the engine uses are listed in PhiloxStream.
//
// Philox is a value; not thread-safe, copies are independent.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/philox_block.h"

namespace gpupool::engine {

// Four random words: block `block` of stream `stream` under `seed`.
constexpr std::array<uint32_t, 4> PhiloxBlock(uint64_t seed, uint64_t stream,
                                              uint64_t block) {
  const PhiloxWords x = PhiloxWordsOf(seed, stream, block);
  return {x.word[0], x.word[1], x.word[2], x.word[3]};
}

// Purposes of random numbers. A stream is the purpose in the upper 8 bits and
// an index (an epoch, a hash of a tensor's name) in the lower 56, so that two
// purposes never share numbers under one seed.
enum class PhiloxStream : uint8_t {
  kGeneral = 0,
  kWeights = 1,  // index: PhiloxNameIndex of the tensor's name
  kShuffle = 2,  // index: the epoch
  kSplit = 3,    // index: 0
  kDropout = 4,  // index: PhiloxNameIndex of the layer; the step moves blocks
};

constexpr uint64_t PhiloxStreamId(PhiloxStream purpose, uint64_t index) {
  return uint64_t{static_cast<uint8_t>(purpose)} << 56 |
         (index & ((uint64_t{1} << 56) - 1));
}

// A stable 56-bit index of a name (FNV-1a, folded).
constexpr uint64_t PhiloxNameIndex(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return (hash ^ hash >> 56) & ((uint64_t{1} << 56) - 1);
}

// Reads one stream word after word.
class Philox {
 public:
  explicit Philox(uint64_t seed, uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  // Words taken so far; Seek goes to any position in constant time.
  uint64_t position() const { return position_; }
  void Seek(uint64_t position);

  uint32_t NextWord();
  // The earlier word is the upper half.
  uint64_t NextDoubleWord();
  // Uniform in [0, 1) with 24 bits, one word.
  float NextFloat();
  // Uniform in [0, 1) with 53 bits, two words.
  double NextDouble();
  // Uniform in [0, bound) without bias (Lemire 2019); bound >= 1.
  uint64_t NextBelow(uint64_t bound);

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_ = 0;
  uint64_t buffered_block_ = ~uint64_t{0};
  std::array<uint32_t, 4> buffer_ = {};
};

// The numbers 0 .. count-1 in an order fixed by (seed, stream): Fisher and
// Yates from the back. count must be below 2^32.
std::vector<uint32_t> PhiloxPermutation(uint64_t seed, uint64_t stream,
                                        uint64_t count);

}  // namespace gpupool::engine
