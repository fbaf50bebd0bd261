#include "engine/memory/stream_frees.h"

namespace gpupool::engine {

void StreamFrees::Insert(Block* block) {
  index_.Insert(block);
  // Searches from the end: blocks come back roughly in the order of counters.
  Block* before = last_;
  while (before != nullptr && before->after.counter > block->after.counter) {
    before = before->earlier;
  }
  Block*& link = before == nullptr ? first_ : before->later;
  block->earlier = before;
  block->later = link;
  (link == nullptr ? last_ : link->earlier) = block;
  link = block;
}

void StreamFrees::Remove(Block* block) {
  index_.Remove(block);
  (block->earlier == nullptr ? first_ : block->earlier->later) = block->later;
  (block->later == nullptr ? last_ : block->later->earlier) = block->earlier;
  block->earlier = nullptr;
  block->later = nullptr;
}

}  // namespace gpupool::engine
