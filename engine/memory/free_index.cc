#include "engine/memory/free_index.h"

#include <algorithm>
#include <bit>

namespace gpupool::engine {
namespace {

// The number of blocks searched in the request's own class, where some may be
// smaller than the request.
constexpr int kOwnClassLooks = 4;

}  // namespace

FreeIndex::FreeIndex() {
  end_.next_free = &end_;
  // An empty list ends in `end_`, which links to itself and has no bytes. Walks
  // therefore need no test for null.
  for (auto& heads : heads_) heads.fill(&end_);
}

// Returns the class of a size. Sizes below 64 units have a class each; larger
// ones share 32 for each power of two, chosen by the bits below the highest.
FreeIndex::Class FreeIndex::ClassOf(uint64_t bytes) {
  const uint64_t units = bytes / kBlockUnitBytes;
  const auto shift =
      // The bit of kSeconds keeps the shift at 0 or more for small sizes.
      static_cast<uint32_t>(std::bit_width(units | kSeconds)) - kSecondBits - 1;
  const auto index = shift * kSeconds + static_cast<uint32_t>(units >> shift);
  return {index / kSeconds, index % kSeconds};
}

void FreeIndex::Insert(Block* block) {
  const Class at = ClassOf(block->bytes);
  Block*& head = heads_[at.first][at.second];
  block->home = this;
  block->next_free = head;
  block->link = &head;
  // In an empty list this writes the link of the end block, which nobody reads.
  head->link = &block->next_free;
  head = block;
  first_ |= uint64_t{1} << at.first;
  second_[at.first] |= uint32_t{1} << at.second;
}

void FreeIndex::Remove(Block* block) {
  // Removes without a search: `link` is the pointer that points to the block.
  block->home = nullptr;
  *block->link = block->next_free;
  block->next_free->link = block->link;
  const Class at = ClassOf(block->bytes);
  const bool empty = heads_[at.first][at.second] == &end_;
  // A bit is set for each list that has blocks. The masks avoid branches.
  second_[at.first] &= ~(uint32_t{empty} << at.second);
  first_ &= ~(uint64_t{second_[at.first] == 0} << at.first);
}

Block* FreeIndex::Find(uint64_t bytes) const {
  const Class at = ClassOf(bytes);
  Block* block = heads_[at.first][at.second];
  // Programs ask for the same sizes again and again.
  if (block->bytes == bytes) return block;
  Block* best = FirstOfLargerClass(at);
  // No block of the request's own class is twice as large.
  uint64_t least_over = bytes;
  for (int i = 0; i < kOwnClassLooks; ++i) {
    // Wraps to a huge value if the block is smaller.
    const uint64_t over = block->bytes - bytes;
    best = over < least_over ? block : best;
    least_over = std::min(least_over, over);
    block = block->next_free;
  }
  if (best != &end_) return best;
  // The alternative is to map more memory, which costs more than walking the
  // rest of the list.
  while (block != &end_ && block->bytes < bytes) block = block->next_free;
  return block == &end_ ? nullptr : block;
}

Block* FreeIndex::FirstOfLargerClass(const Class& at) const {
  const auto larger =
      static_cast<uint32_t>(second_[at.first] & (~uint64_t{1} << at.second));
  if (larger != 0) return heads_[at.first][std::countr_zero(larger)];
  // Every block of a larger class is large enough, so the first one will do.
  const uint64_t firsts = first_ & (~uint64_t{1} << at.first);
  // `end_` links to itself; this is the pointer to it without const.
  if (firsts == 0) return end_.next_free;
  const int first = std::countr_zero(firsts);
  return heads_[first][std::countr_zero(second_[first])];
}

uint64_t FreeIndex::largest_bytes() const {
  if (first_ == 0) return 0;
  const auto first = static_cast<size_t>(std::bit_width(first_) - 1);
  const auto second = static_cast<size_t>(std::bit_width(second_[first]) - 1);
  uint64_t largest = 0;
  // The blocks of one class differ in size.
  for (const Block* block = heads_[first][second]; block != &end_;
       block = block->next_free) {
    largest = std::max(largest, block->bytes);
  }
  return largest;
}

}  // namespace gpupool::engine
