// Free blocks that one stream may use at once, and everybody when the stream
// has passed a counter: an index by size and a list by counter.
//
// Thread-safety: none. Ownership: none of the blocks.
#pragma once

#include "engine/memory/block.h"
#include "engine/memory/free_index.h"

namespace gpupool::engine {

class StreamFrees {
 public:
  // The blocks' `after` says the counter; it stays while they are inside.
  void Insert(Block* block);
  void Remove(Block* block);

  const FreeIndex& index() const { return index_; }
  // The block whose counter is passed first; null when there is none.
  Block* first() const { return first_; }

 private:
  FreeIndex index_;
  Block* first_ = nullptr;
  Block* last_ = nullptr;
};

}  // namespace gpupool::engine
