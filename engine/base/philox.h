// Philox4x32-10, the only random generator of the project (Salmon, Moraes,
// Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
//
// It is counter based: a block of four 32-bit words is a pure function of
// (seed, stream, block index). A stream can therefore be entered anywhere, and
// every device and thread count gets the same words.
//   key      seed low, seed high
//   counter  block low, block high, stream low, stream high
// PhiloxStream lists the classes of streams that the engine uses.
//
// Philox is a value: not thread-safe, and copies are independent.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/philox_block.h"

namespace gpupool::engine {

// Returns block `block` of stream `stream` under `seed`: four random words.
constexpr std::array<uint32_t, 4> PhiloxBlock(uint64_t seed, uint64_t stream,
                                              uint64_t block) {
  const PhiloxWords x = PhiloxWordsOf(seed, stream, block);
  return {x.word[0], x.word[1], x.word[2], x.word[3]};
}

// Purposes of random numbers. A stream id holds the purpose in the upper 8 bits
// and an index (an epoch, a hash of a tensor's name) in the lower 56, so two
// purposes never share numbers under one seed.
enum class PhiloxStream : uint8_t {
  kGeneral = 0,
  kWeights = 1,  // index: PhiloxNameIndex of the tensor's name
  kShuffle = 2,  // index: the epoch
  kSplit = 3,    // index: 0
  kDropout = 4,  // index: PhiloxNameIndex of the layer; the step moves blocks
  kTransforms = 5,  // index: the epoch; the row moves blocks
  kMix = 6,         // index: the batch
};

constexpr uint64_t PhiloxStreamId(PhiloxStream purpose, uint64_t index) {
  return uint64_t{static_cast<uint8_t>(purpose)} << 56 |
         (index & ((uint64_t{1} << 56) - 1));
}

// Returns a stable 56-bit index of a name (FNV-1a, folded).
constexpr uint64_t PhiloxNameIndex(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return (hash ^ hash >> 56) & ((uint64_t{1} << 56) - 1);
}

// Reads the words of one stream in order.
class Philox {
 public:
  explicit Philox(uint64_t seed, uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  // Returns how many words were taken. Seek moves to any position in constant
  // time.
  uint64_t position() const { return position_; }
  void Seek(uint64_t position);

  uint32_t NextWord();
  // Returns two words as one; the earlier word is the upper half.
  uint64_t NextDoubleWord();
  // Returns a uniform number in [0, 1) with 24 bits; takes one word.
  float NextFloat();
  // Returns a uniform number in [0, 1) with 53 bits; takes two words.
  double NextDouble();
  // Returns a uniform number in [0, bound) without bias (Lemire 2019). `bound`
  // must be at least 1.
  uint64_t NextBelow(uint64_t bound);

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_ = 0;
  uint64_t buffered_block_ = ~uint64_t{0};
  std::array<uint32_t, 4> buffer_ = {};
};

// Returns the numbers 0 .. count-1 in an order fixed by (seed, stream),
// shuffled by Fisher and Yates from the back. `count` must be below 2^32.
std::vector<uint32_t> PhiloxPermutation(uint64_t seed, uint64_t stream,
                                        uint64_t count);

}  // namespace gpupool::engine
