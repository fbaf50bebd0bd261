// Dropout by Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As
// Easy as 1, 2, 3"), up to sixteen blocks of four numbers at a time. The
// gradient of a dropout is the same node on another input.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/elementwise/dropout.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <cmath>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"
#include "hwy/highway.h"

#ifndef GPUPOOL_DROPOUT_KEY_
#define GPUPOOL_DROPOUT_KEY_
namespace gpupool::engine {
struct DropoutKey {
  uint64_t seed;
  uint64_t stream;
  uint64_t first_block;  // its lower 32 bits are 0
};
}  // namespace gpupool::engine
#endif

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using WordTag = hn::CappedTag<uint32_t, 16>;
using Words = hn::Vec<WordTag>;

// Returns the upper halves of the lanes' 64-bit products with `factor`.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Words MulHigh(Words x, uint32_t factor) {
  const uint64_t product = uint64_t{hn::GetLane(x)} * factor;
  return hn::Set(WordTag(), static_cast<uint32_t>(product >> 32));
}
#else
HWY_INLINE Words MulHigh(Words x, uint32_t factor) {
  const WordTag d;
  const hn::Repartition<uint64_t, WordTag> wide;
  const Words factors = hn::Set(d, factor);
  // MulEven multiplies only even lanes. Odd lanes are first shifted down to
  // them.
  const auto even = hn::MulEven(x, factors);
  const Words shifted =
      hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x)));
  const auto odd = hn::MulEven(shifted, factors);
  const auto low = hn::ShiftRight<32>(even);
  const auto high = hn::ShiftLeft<32>(hn::ShiftRight<32>(odd));
  return hn::BitCast(d, hn::Or(low, high));
}
#endif

struct Counter {
  Words x0, x1, x2, x3;
};

HWY_INLINE void PhiloxRounds(uint64_t seed, Counter& c) {
  const WordTag d;
  constexpr uint32_t kFactor0 = 0xD2511F53;
  constexpr uint32_t kFactor1 = 0xCD9E8D57;
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Words high0 = MulHigh(c.x0, kFactor0);
    const Words high1 = MulHigh(c.x2, kFactor1);
    const Words low0 = hn::Mul(c.x0, hn::Set(d, kFactor0));
    const Words low1 = hn::Mul(c.x2, hn::Set(d, kFactor1));
    c.x0 = hn::Xor(hn::Xor(high1, c.x1), hn::Set(d, key0));
    c.x1 = low1;
    c.x2 = hn::Xor(hn::Xor(high0, c.x3), hn::Set(d, key1));
    c.x3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// Drops elements [begin, end). Both must be multiples of 64, but `end` may be
// the last element.
void DropoutRange(const float* x, float* y, int64_t begin, int64_t end,
                  const DropoutKey& key, uint32_t threshold, float scale) {
  const WordTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint32_t words[4 * 16];
  for (int64_t i = begin; i < end; i += 4 * lanes) {
    // The blocks of a vector share the upper half of the block number, since a
    // vector starts at a multiple of its lanes, a power of two.
    const uint64_t block = key.first_block | static_cast<uint64_t>(i) / 4;
    Counter c;
    c.x0 = hn::Iota(d, static_cast<uint32_t>(block));
    c.x1 = hn::Set(d, static_cast<uint32_t>(block >> 32));
    c.x2 = hn::Set(d, static_cast<uint32_t>(key.stream));
    c.x3 = hn::Set(d, static_cast<uint32_t>(key.stream >> 32));
    PhiloxRounds(key.seed, c);
    // Puts the four words of each block next to each other.
    hn::StoreInterleaved4(c.x0, c.x1, c.x2, c.x3, d, words);
    const int64_t count = end - i < 4 * lanes ? end - i : 4 * lanes;
    for (int64_t k = 0; k < count; ++k) {
      y[i + k] = (words[k] >> 8) >= threshold ? x[i + k] * scale : 0.0f;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {
HWY_EXPORT(DropoutRange);
}  // namespace

KernelOr MakeDropout(const CompileRequest& request, const CpuContext& context) {
  const auto attributes = request.node.get<DropoutAttributes>();
  const int64_t count = OutputOf(request, 0).shape.elements();
  const int threads = context.ThreadsForBytes(OutputOf(request, 0).bytes());
  // u = k / 2^24 >= p means k >= p * 2^24. float32 represents both exactly.
  const auto threshold = static_cast<uint32_t>(
      std::ceil(static_cast<float>(attributes.probability) * 0x1p24));
  const auto scale = static_cast<float>(1.0 / (1.0 - attributes.probability));
  const auto range = HWY_DYNAMIC_DISPATCH(DropoutRange);
  return MakeKernel([=](const KernelArguments& at) {
    const DropoutKey key{static_cast<uint64_t>(*at.in<int64_t>(1)),
                         attributes.stream,
                         static_cast<uint64_t>(*at.in<int64_t>(2)) << 32};
    ParallelFor(threads, count, 64, [&](int64_t begin, int64_t end) {
      range(at.in(0), at.out(0), begin, end, key, threshold, scale);
    });
  });
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
