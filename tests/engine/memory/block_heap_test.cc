#include "engine/memory/block_heap.h"

#include <gtest/gtest.h>

#include "tests/engine/memory/byte_units.h"
#include "tests/engine/memory/simulated_driver.h"
#include "tests/engine/memory/simulated_timeline.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 40;

class BlockHeapTest : public ::testing::Test {
 protected:
  Block* Allocate(uint64_t bytes, StreamId stream = 0) {
    Block* block = heap_.Find(bytes, stream);
    if (block == nullptr) {
      EXPECT_TRUE(heap_.Grow(bytes, stream, kMost).ok());
      block = heap_.Find(bytes, stream);
    }
    heap_.Take(block, bytes, stream);
    return block;
  }
  // Returns the blocks by address: "u" used, "f" free, "l" leaving, "-"
  // unmapped.
  std::string Picture() {
    std::string picture;
    heap_.ForEachBlock([&](const Block& block) {
      picture += "-ful"[static_cast<int>(block.state)];
    });
    return picture;
  }

  SimulatedDriver driver_;
  SimulatedTimeline timeline_;
  History history_;
  BlockHeap heap_{&driver_, 64 * kMiB, &timeline_, &history_};
};

TEST_F(BlockHeapTest, ReturnedBlocksMergeWithFreeNeighbours) {
  Block* const a = Allocate(kMiB);
  Block* const b = Allocate(kMiB);
  Block* const c = Allocate(kMiB);
  EXPECT_EQ(Picture(), "uuuf-");
  heap_.Return(a, {});
  EXPECT_EQ(Picture(), "fuuf-");
  heap_.Return(c, {});
  EXPECT_EQ(Picture(), "fuf-");
  heap_.Return(b, {});
  EXPECT_EQ(Picture(), "f-");
  EXPECT_EQ(heap_.free().bytes, 4 * kMiB);
}

TEST_F(BlockHeapTest, HoleBetweenTwoFreeBlocksIsMappedAsAWhole) {
  Block* const a = Allocate(3 * kMiB);
  Block* const b = Allocate(4 * kMiB);
  Block* const c = Allocate(kMiB);
  Block* const d = Allocate(56 * kMiB);  // the rest of the range
  heap_.Return(b, {});
  EXPECT_EQ(heap_.Trim(2 * kMiB), 2 * kMiB);
  heap_.Return(a, {});
  heap_.Return(c, {});
  EXPECT_EQ(Picture(), "f-fu");
  ASSERT_TRUE(heap_.Grow(8 * kMiB, 0, kMost).ok());
  EXPECT_EQ(Picture(), "fu") << "no range was added";
  heap_.Return(d, {});
}

TEST_F(BlockHeapTest, HoleIsMappedFromTheSideWithTheFreeBlock) {
  Block* const a = Allocate(4 * kMiB);
  Block* const b = Allocate(20 * kMiB);
  Block* const c = Allocate(40 * kMiB);
  heap_.Return(b, {});
  EXPECT_EQ(heap_.Trim(12 * kMiB), 12 * kMiB);
  EXPECT_EQ(Picture(), "uf-u");
  const uint64_t mapped = heap_.chunks().bytes();
  ASSERT_TRUE(heap_.Grow(10 * kMiB, 0, kMost).ok());
  EXPECT_EQ(heap_.chunks().bytes(), mapped + 2 * kMiB);
  EXPECT_EQ(Picture(), "uf-u");
  heap_.Return(a, {});
  heap_.Return(c, {});
}

TEST_F(BlockHeapTest, TrimTakesWholeChunksFromHighAddressesOn) {
  Block* const a = Allocate(2 * kMiB);
  Block* const b = Allocate(2 * kMiB);
  Block* const c = Allocate(2 * kMiB);
  const uint64_t low = a->address;
  heap_.Return(a, {});
  heap_.Return(c, {});
  EXPECT_EQ(heap_.Trim(1), 2 * kMiB);
  EXPECT_EQ(Picture(), "fu-");
  EXPECT_TRUE(driver_.IsMapped({low, 2 * kMiB}));
  EXPECT_EQ(heap_.Trim(kMost), 2 * kMiB);
  EXPECT_EQ(Picture(), "-u-");
  heap_.Return(b, {});
}

TEST_F(BlockHeapTest, TrimStopsWhenTheDeviceKeepsAChunk) {
  Block* const a = Allocate(6 * kMiB);
  heap_.Return(a, {});
  driver_.FailCall(driver_.calls() + 1, true);
  EXPECT_EQ(heap_.Trim(kMost), 0u);
  EXPECT_EQ(Picture(), "f-");
  EXPECT_EQ(heap_.Trim(kMost), 6 * kMiB);
}

TEST_F(BlockHeapTest, SecondRangeIsReservedWhenTheFirstHasNoRoom) {
  Block* const a = Allocate(40 * kMiB);
  Block* const b = Allocate(100 * kMiB);
  EXPECT_EQ(Picture(), "u-u");
  heap_.Return(a, {});
  heap_.Return(b, {});
}

TEST_F(BlockHeapTest, FreeMemoryOfStreamsIsApartUntilSettled) {
  Block* const a = Allocate(2 * kMiB, 1);
  Block* const b = Allocate(2 * kMiB, 2);
  heap_.Return(a, {{1, 5}});
  heap_.Return(b, {{2, 5}});
  EXPECT_EQ(Picture(), "ff-");
  EXPECT_EQ(heap_.Find(2 * kMiB, 1), a);
  EXPECT_EQ(heap_.Find(2 * kMiB, 2), b);
  EXPECT_EQ(heap_.Find(2 * kMiB, 3), nullptr);
  EXPECT_FALSE(heap_.Settle());
  timeline_.Pass({1, 5});
  timeline_.Pass({2, 5});
  EXPECT_TRUE(heap_.Settle());
  EXPECT_EQ(Picture(), "f-");
}

TEST_F(BlockHeapTest, RecycledBlockForgetsItsStream) {
  Block* const a = Allocate(kMiB, 1);
  Block* const b = Allocate(kMiB, 1);
  heap_.Return(a, {{1, 5}});
  heap_.Return(b, {{1, 6}});  // merged into `a`, so that `b` is recycled
  Block* const c = Allocate(kMiB, 2);
  EXPECT_EQ(Picture(), "fuf-");
  for (const Block* block : {c, c->next, c->next->next}) {
    EXPECT_EQ(block->after, Moment());
    EXPECT_EQ(block->earlier, nullptr);
    EXPECT_EQ(block->later, nullptr);
    EXPECT_EQ(block->account, nullptr);
  }
  heap_.Return(c, {});
}

TEST_F(BlockHeapTest, RecycledBlockForgetsItsNeighbours) {
  Block* const a = Allocate(kMiB);
  Block* const b = Allocate(kMiB);
  heap_.Return(a, {});
  heap_.Return(b, {});  // merged into `a`, so that `b` is recycled
  Block* const c = Allocate(100 * kMiB);
  EXPECT_EQ(Picture(), "f-u");
  EXPECT_EQ(c->previous, nullptr);
  heap_.Return(c, {});
  EXPECT_EQ(Picture(), "f-f");
}

TEST_F(BlockHeapTest, GrowRefusesToPassTheMostWhileStreamsHoldFreeMemory) {
  Block* const a = Allocate(8 * kMiB, 1);
  heap_.Return(a, {{1, 5}});
  EXPECT_TRUE(absl::IsUnavailable(heap_.Grow(8 * kMiB, 2, 10 * kMiB)));
  EXPECT_EQ(heap_.MomentToWaitFor(8 * kMiB, 10 * kMiB), (Moment{1, 5}));
  timeline_.Pass({1, 5});
  heap_.Settle();
  EXPECT_FALSE(heap_.MomentToWaitFor(8 * kMiB, 10 * kMiB).has_value());
  EXPECT_NE(heap_.Find(8 * kMiB, 2), nullptr);
}

}  // namespace
}  // namespace gpupool::engine
