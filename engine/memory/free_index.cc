#include "engine/memory/free_index.h"

#include <algorithm>
#include <bit>

namespace gpupool::engine {
namespace {

// Blocks of the request's own class that are looked at: some may be smaller
// than the request.
constexpr int kOwnClassLooks = 4;

}  // namespace

FreeIndex::Class FreeIndex::ClassOf(uint64_t bytes) {
  const uint64_t units = bytes / kBlockUnitBytes;
  if (units < kSeconds) return {0, static_cast<uint32_t>(units)};
  const auto log = static_cast<uint32_t>(std::bit_width(units) - 1);
  const uint64_t part = (units >> (log - kSecondBits)) - kSeconds;
  return {log - kSecondBits + 1, static_cast<uint32_t>(part)};
}

void FreeIndex::Insert(Block* block) {
  const Class at = ClassOf(block->bytes);
  Block*& head = heads_[at.first][at.second];
  block->home = this;
  block->previous_free = nullptr;
  block->next_free = head;
  if (head != nullptr) head->previous_free = block;
  head = block;
  first_ |= uint64_t{1} << at.first;
  second_[at.first] |= uint32_t{1} << at.second;
}

void FreeIndex::Remove(Block* block) {
  block->home = nullptr;
  if (block->next_free != nullptr) {
    block->next_free->previous_free = block->previous_free;
  }
  if (block->previous_free != nullptr) {
    block->previous_free->next_free = block->next_free;
    return;
  }
  const Class at = ClassOf(block->bytes);
  heads_[at.first][at.second] = block->next_free;
  if (block->next_free != nullptr) return;
  second_[at.first] &= ~(uint32_t{1} << at.second);
  if (second_[at.first] == 0) first_ &= ~(uint64_t{1} << at.first);
}

Block* FreeIndex::Find(uint64_t bytes) const {
  const Class at = ClassOf(bytes);
  Block* best = nullptr;
  Block* block = heads_[at.first][at.second];
  for (int i = 0; i < kOwnClassLooks && block != nullptr; ++i) {
    if (block->bytes == bytes) return block;
    if (block->bytes > bytes &&
        (best == nullptr || block->bytes < best->bytes)) {
      best = block;
    }
    block = block->next_free;
  }
  if (best != nullptr) return best;
  if (Block* larger = FirstOfLargerClass(at); larger != nullptr) return larger;
  // Nothing left but more memory, next to which a longer look is cheap.
  while (block != nullptr && block->bytes < bytes) block = block->next_free;
  return block;
}

Block* FreeIndex::FirstOfLargerClass(const Class& at) const {
  const auto larger =
      static_cast<uint32_t>(second_[at.first] & (~uint64_t{1} << at.second));
  if (larger != 0) return heads_[at.first][std::countr_zero(larger)];
  const uint64_t firsts = first_ & (~uint64_t{1} << at.first);
  if (firsts == 0) return nullptr;
  const int first = std::countr_zero(firsts);
  return heads_[first][std::countr_zero(second_[first])];
}

uint64_t FreeIndex::largest_bytes() const {
  if (first_ == 0) return 0;
  const auto first = static_cast<size_t>(std::bit_width(first_) - 1);
  const auto second = static_cast<size_t>(std::bit_width(second_[first]) - 1);
  uint64_t largest = 0;
  for (const Block* block = heads_[first][second]; block != nullptr;
       block = block->next_free) {
    largest = std::max(largest, block->bytes);
  }
  return largest;
}

}  // namespace gpupool::engine
