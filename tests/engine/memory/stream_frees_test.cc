#include "engine/memory/stream_frees.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpupool::engine {
namespace {

TEST(StreamFreesTest, FirstIsTheOneWithTheSmallestCounter) {
  StreamFrees frees;
  std::vector<Block> blocks(5);
  const uint64_t counters[] = {30, 10, 20, 10, 40};
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].bytes = 256;
    blocks[i].after = {1, counters[i]};
    frees.Insert(&blocks[i]);
  }
  std::vector<uint64_t> order;
  frees.Remove(&blocks[2]);  // from the middle
  while (Block* block = frees.first()) {
    order.push_back(block->after.counter);
    EXPECT_EQ(block->home, &frees.index());
    frees.Remove(block);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{10, 10, 30, 40}));
  EXPECT_TRUE(frees.index().empty());
}

}  // namespace
}  // namespace gpupool::engine
