// How long does it take to free a block and allocate another, with 1,500 live
// blocks of 512 bytes to 64 MiB and no other thread at the lock?
//
// Ours counts owners, limits and statistics. The peer is PyTorch's algorithm
// (an ordered set and a table of addresses), written anew without its
// statistics. Sizes repeat, as in a training loop, or are drawn anew each time.
// Both run over a simulated device, so no page is touched.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "tests/engine/memory/pytorch_allocator.h"
#include "tests/engine/memory/simulated_driver.h"

namespace {

using gpupool::engine::Allocation;
using gpupool::engine::CachingAllocator;
using gpupool::engine::PyTorchAllocator;
using gpupool::engine::SimulatedDriver;
using Clock = std::chrono::steady_clock;

constexpr size_t kLiveBlocks = 1500;
constexpr size_t kPairs = 200000;
constexpr int kRounds = 9;

struct Pair {
  size_t slot;  // the slot whose block is replaced
  uint64_t bytes;
};

class Ours {
 public:
  Ours() : blocks_(kLiveBlocks) {}
  void Replace(const Pair& pair) {
    blocks_[pair.slot].Reset();
    auto block = allocator_.Allocate(pair.bytes, owner_);
    if (!block.ok()) std::abort();
    blocks_[pair.slot] = *std::move(block);
  }

 private:
  SimulatedDriver driver_;
  CachingAllocator allocator_{"cuda:0", uint64_t{1} << 39, &driver_};
  const gpupool::engine::Owner owner_{"job 7", "activations"};
  std::vector<Allocation> blocks_;
};

class Peer {
 public:
  Peer() : blocks_(kLiveBlocks) {}
  void Replace(const Pair& pair) {
    if (blocks_[pair.slot] != 0) allocator_.Free(blocks_[pair.slot]);
    blocks_[pair.slot] = allocator_.Allocate(pair.bytes);
  }

 private:
  PyTorchAllocator allocator_;
  std::vector<uint64_t> blocks_;
};

// Returns sizes that are evenly spread over the powers of two.
uint64_t DrawBytes(std::mt19937& random) {
  std::uniform_real_distribution<double> exponent(9, 26);
  return static_cast<uint64_t>(std::exp2(exponent(random)));
}

std::vector<Pair> DrawPairs(bool sizes_repeat) {
  std::mt19937 random(1);
  std::vector<uint64_t> sizes(kLiveBlocks);
  for (uint64_t& bytes : sizes) bytes = DrawBytes(random);
  std::vector<Pair> pairs;
  for (size_t slot = 0; slot < kLiveBlocks; ++slot) {
    pairs.push_back({slot, sizes[slot]});
  }
  while (pairs.size() < kLiveBlocks + kPairs) {
    const size_t slot = random() % kLiveBlocks;
    pairs.push_back({slot, sizes_repeat ? sizes[slot] : DrawBytes(random)});
  }
  return pairs;
}

// Returns nanoseconds for a pair of calls, after a warm-up.
template <typename Side>
double Measure(const std::vector<Pair>& pairs) {
  Side side;
  for (const Pair& pair : pairs) side.Replace(pair);
  const Clock::time_point start = Clock::now();
  for (size_t i = kLiveBlocks; i < pairs.size(); ++i) side.Replace(pairs[i]);
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  return took.count() / kPairs;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Compare(const char* name, bool sizes_repeat) {
  const std::vector<Pair> pairs = DrawPairs(sizes_repeat);
  std::vector<double> ours, peer;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(Measure<Ours>(pairs));
    peer.push_back(Measure<Peer>(pairs));
  }
  std::printf(
      "{\"bench\":\"allocator\",\"case\":\"%s\",\"ours\":%.1f,\"peer\":%.1f,"
      "\"ratio\":%.2f,\"unit\":\"ns\"}\n",
      name, Median(ours), Median(peer), Median(ours) / Median(peer));
}

}  // namespace

int main() {
  Compare("free+allocate-same-sizes", true);
  Compare("free+allocate-new-sizes", false);
  return 0;
}
