#include "tests/engine/memory/pytorch_allocator.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/base/align.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kUnitBytes = 512;
constexpr uint64_t kSmallMostBytes = 1 << 20;
constexpr uint64_t kSmallSegmentBytes = 2 << 20;
constexpr uint64_t kMiddleMostBytes = 10 << 20;
constexpr uint64_t kMiddleSegmentBytes = 20 << 20;
constexpr uint64_t kLargeSegmentUnitBytes = 2 << 20;

uint64_t SegmentBytes(uint64_t bytes) {
  if (bytes <= kSmallMostBytes) return kSmallSegmentBytes;
  if (bytes < kMiddleMostBytes) return kMiddleSegmentBytes;
  return AlignUp(bytes, kLargeSegmentUnitBytes);
}

}  // namespace

struct PyTorchAllocator::Block {
  uint64_t address = 0;
  uint64_t bytes = 0;
  int stream = 0;
  bool used = false;
  Pool* pool = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
};

bool PyTorchAllocator::Order::operator()(const Block* a, const Block* b) const {
  return std::tie(a->stream, a->bytes, a->address) <
         std::tie(b->stream, b->bytes, b->address);
}

PyTorchAllocator::PyTorchAllocator() = default;

PyTorchAllocator::~PyTorchAllocator() {
  for (Block* block : firsts_) {
    while (block != nullptr) delete std::exchange(block, block->next);
  }
}

PyTorchAllocator::Shard& PyTorchAllocator::ShardOf(uint64_t address) {
  return shards_[(address / kUnitBytes) % shards_.size()];
}

PyTorchAllocator::Block* PyTorchAllocator::NewSegment(uint64_t bytes,
                                                      Pool* pool) {
  auto* const block = new Block;
  block->address = next_address_;
  block->bytes = bytes;
  block->pool = pool;
  next_address_ += bytes + kLargeSegmentUnitBytes;
  reserved_bytes_ += bytes;
  firsts_.insert(block);
  return block;
}

uint64_t PyTorchAllocator::Allocate(uint64_t bytes) {
  const uint64_t rounded = AlignUp(bytes, kUnitBytes);
  Block* block = nullptr;
  {
    std::lock_guard<std::recursive_mutex> lock(mutex_);
    Pool* const pool = rounded <= kSmallMostBytes ? &small_ : &large_;
    Block key;
    key.bytes = rounded;
    const auto found = pool->lower_bound(&key);
    if (found != pool->end()) {
      block = *found;
      pool->erase(found);
    } else {
      block = NewSegment(SegmentBytes(rounded), pool);
    }
    const uint64_t rest = block->bytes - rounded;
    if (pool == &small_ ? rest >= kUnitBytes : rest > kSmallMostBytes) {
      auto* const remainder = new Block(*block);
      remainder->address = block->address + rounded;
      remainder->bytes = rest;
      remainder->previous = block;
      if (block->next != nullptr) block->next->previous = remainder;
      block->next = remainder;
      block->bytes = rounded;
      pool->insert(remainder);
    }
    block->used = true;
  }
  Shard& shard = ShardOf(block->address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  shard.blocks[block->address] = block;
  return block->address;
}

void PyTorchAllocator::Merge(Block* block, Block* neighbour) {
  if (neighbour == nullptr || neighbour->used) return;
  block->pool->erase(neighbour);
  if (neighbour == block->previous) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    if (block->previous != nullptr) block->previous->next = block;
    if (firsts_.erase(neighbour) > 0) firsts_.insert(block);
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) block->next->previous = block;
  }
  block->bytes += neighbour->bytes;
  delete neighbour;
}

void PyTorchAllocator::Free(uint64_t address) {
  Block* block = nullptr;
  {
    Shard& shard = ShardOf(address);
    std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.blocks.find(address);
    block = found->second;
    shard.blocks.erase(found);
  }
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  block->used = false;
  Merge(block, block->previous);
  Merge(block, block->next);
  block->pool->insert(block);
}

}  // namespace gpupool::engine
