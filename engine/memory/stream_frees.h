// Free blocks that one stream may use at once and all other streams after a
// counter: an index by size and a list by counter.
#pragma once

#include "engine/memory/block.h"
#include "engine/memory/free_index.h"

namespace gpupool::engine {

class StreamFrees {
 public:
  // Adds a block whose `after` has the counter. `after` must not change until
  // Remove.
  void Insert(Block* block);
  void Remove(Block* block);

  const FreeIndex& index() const { return index_; }
  // Returns the block with the lowest counter; null when there is none.
  Block* first() const { return first_; }

 private:
  FreeIndex index_;
  Block* first_ = nullptr;
  Block* last_ = nullptr;
};

}  // namespace gpupool::engine
