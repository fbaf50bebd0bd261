// The peer: the algorithm of PyTorch's CUDA caching allocator, written anew
// from its published source (c10/cuda/CUDACachingAllocator.cpp, default
// settings, plain segments, one stream). It uses best fit from an ordered set
// per pool, segments that are never given back, one lock, and a table from
// addresses to blocks in 67 parts. It keeps no statistics except bytes.
//
// Thread-safety: like the original, every function from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace gpupool::engine {

class PyTorchAllocator {
 public:
  PyTorchAllocator();
  ~PyTorchAllocator();

  uint64_t Allocate(uint64_t bytes);  // returns the address
  void Free(uint64_t address);

  uint64_t peak_reserved_bytes() const { return reserved_bytes_; }

 private:
  struct Block;
  // Orders by stream, size and address. There is only one stream.
  struct Order {
    bool operator()(const Block* a, const Block* b) const;
  };
  using Pool = std::set<Block*, Order>;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, Block*> blocks;
  };
  Shard& ShardOf(uint64_t address);
  Block* NewSegment(uint64_t bytes, Pool* pool);
  // Merges a neighbour into `block` if it is free.
  void Merge(Block* block, Block* neighbour);

  std::recursive_mutex mutex_;
  Pool small_;
  Pool large_;
  std::array<Shard, 67> shards_;
  std::set<Block*> firsts_;  // of each segment, to free the segments
  uint64_t next_address_ = uint64_t{1} << 44;
  uint64_t reserved_bytes_ = 0;
};

}  // namespace gpupool::engine
