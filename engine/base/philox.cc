#include "engine/base/philox.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "engine/base/check.h"

namespace gpupool::engine {

void Philox::Seek(uint64_t position) { position_ = position; }

uint32_t Philox::NextWord() {
  const uint64_t block = position_ / 4;
  if (block != buffered_block_) {
    buffer_ = PhiloxBlock(seed_, stream_, block);
    buffered_block_ = block;
  }
  return buffer_[position_++ % 4];
}

uint64_t Philox::NextDoubleWord() {
  const uint64_t high = NextWord();
  return high << 32 | NextWord();
}

float Philox::NextFloat() { return PhiloxUniformFloat(NextWord()); }

double Philox::NextDouble() {
  return static_cast<double>(NextDoubleWord() >> 11) * 0x1p-53;
}

double Philox::NextNormal() {
  // 1 - u is in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - NextDouble()));
  return radius * std::cos(2.0 * std::numbers::pi * NextDouble());
}

uint64_t Philox::NextBelow(uint64_t bound) {
  GPUPOOL_CHECK(bound > 0);
  __extension__ using Wide = unsigned __int128;
  // Rejects the lowest `2^64 mod bound` products. They are the surplus that
  // would favour some results, because 2^64 does not divide evenly by `bound`.
  const uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const Wide product = static_cast<Wide>(NextDoubleWord()) * bound;
    if (static_cast<uint64_t>(product) >= threshold) {
      return static_cast<uint64_t>(product >> 64);
    }
  }
}

std::vector<uint32_t> PhiloxPermutation(uint64_t seed, uint64_t stream,
                                        uint64_t count) {
  GPUPOOL_CHECK(count < uint64_t{1} << 32);
  std::vector<uint32_t> order(count);
  for (uint64_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
  Philox random(seed, stream);
  for (uint64_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random.NextBelow(i)]);
  }
  return order;
}

}  // namespace gpupool::engine
