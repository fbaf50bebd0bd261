// The figures of PyTorch's memory statistics, under the same names. Each has
// its current value, its peak, and all that was ever added and taken.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::engine {

struct MemoryFigure {
  uint64_t current = 0;
  uint64_t peak = 0;
  uint64_t allocated = 0;  // added since start

  uint64_t freed() const { return allocated - current; }
  void Add(uint64_t amount) {
    current += amount;
    allocated += amount;
    if (current > peak) peak = current;
  }
  void Subtract(uint64_t amount) { current -= amount; }
  // Sets the current value, which counts as one addition or subtraction.
  void MoveTo(uint64_t value) {
    allocated += std::max(value, current) - current;
    peak = std::max(peak, value);
    current = value;
  }
};

// A block is "active" while it is held, or while a stream has not passed its
// last use. "inactive_split" is free memory in mapped chunks. A segment is a
// physical chunk.
struct MemoryFigures {
  MemoryFigure allocation;  // blocks that are held
  MemoryFigure segment;
  MemoryFigure active;
  MemoryFigure inactive_split;
  MemoryFigure allocated_bytes;  // charged to owners
  MemoryFigure reserved_bytes;
  MemoryFigure active_bytes;
  MemoryFigure inactive_split_bytes;
  MemoryFigure requested_bytes;

  void ResetPeaks();
};

// "small_pool" counts held blocks of at most 1 MiB, "large_pool" larger ones.
// Chunks and free memory are shared by both and count in "all" and in
// "large_pool".
enum class MemoryPool : uint8_t { kAll, kSmall, kLarge };
inline constexpr size_t kAllPools = static_cast<size_t>(MemoryPool::kAll);
inline constexpr size_t kMemoryPools = 3;
using PooledFigures = std::array<MemoryFigures, kMemoryPools>;

// Returns "allocated_bytes.all.current" and so on, in the order of the fields.
std::vector<std::pair<std::string, uint64_t>> NamedFigures(
    const PooledFigures& figures);

}  // namespace gpupool::engine
