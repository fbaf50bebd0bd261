#include "engine/memory/chunk_map.h"

#include <gtest/gtest.h>

#include "tests/engine/memory/byte_units.h"
#include "tests/engine/memory/simulated_driver.h"

namespace gpupool::engine {
namespace {

class ChunkMapTest : public ::testing::Test {
 protected:
  SimulatedDriver driver_;
  uint64_t base_ = *driver_.ReserveRange(256 * kMiB);
  ChunkMap map_{&driver_};
  uint64_t mapped_ = 0;
};

TEST_F(ChunkMapTest, TakesTheLargestChunksThatFitFirst) {
  ASSERT_TRUE(map_.Map({base_, 76 * kMiB}, &mapped_).ok());
  EXPECT_EQ(mapped_, 76 * kMiB);
  // 32 + 32 + 8 + 2 + 2
  EXPECT_EQ(map_.created(), 5u);
  EXPECT_EQ(map_.bytes(), 76 * kMiB);
  EXPECT_TRUE(driver_.IsMapped({base_, 76 * kMiB}));
}

TEST_F(ChunkMapTest, FindsOnlyChunksThatLieInsideAsAWhole) {
  ASSERT_TRUE(map_.Map({base_, 44 * kMiB}, &mapped_).ok());  // 32 + 8 + 2 + 2
  const auto last = map_.LastIn({base_, 43 * kMiB});
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->address, base_ + 40 * kMiB);
  EXPECT_EQ(last->bytes, 2 * kMiB);
  EXPECT_EQ(map_.WholeBytesIn({base_, 43 * kMiB}), 42 * kMiB);
  EXPECT_EQ(map_.WholeBytesIn({base_ + kMiB, 42 * kMiB}), 10 * kMiB);
  EXPECT_FALSE(map_.LastIn({base_ + kMiB, 30 * kMiB}).has_value());
}

TEST_F(ChunkMapTest, FullDeviceLeavesWhatWasMappedFromTheBeginning) {
  driver_.SetCapacity(40 * kMiB);
  EXPECT_TRUE(
      absl::IsResourceExhausted(map_.Map({base_, 76 * kMiB}, &mapped_)));
  EXPECT_EQ(mapped_, 32 * kMiB);
  EXPECT_EQ(map_.bytes(), 32 * kMiB);
  EXPECT_EQ(driver_.live_bytes(), 32 * kMiB);
}

TEST_F(ChunkMapTest, ChunkThatCannotBeMappedIsReleased) {
  driver_.FailCall(3);  // after reserve and create
  EXPECT_FALSE(map_.Map({base_, 2 * kMiB}, &mapped_).ok());
  EXPECT_EQ(mapped_, 0u);
  EXPECT_EQ(driver_.live_bytes(), 0u);
}

TEST_F(ChunkMapTest, ChunkThatIsNotTakenBackStays) {
  ASSERT_TRUE(map_.Map({base_, 2 * kMiB}, &mapped_).ok());
  driver_.FailCall(4, true);
  EXPECT_FALSE(map_.Unmap({base_, 2 * kMiB}).ok());
  EXPECT_EQ(map_.bytes(), 2 * kMiB);
  EXPECT_TRUE(map_.Unmap({base_, 2 * kMiB}).ok());
  EXPECT_EQ(driver_.live_bytes(), 0u);
  EXPECT_EQ(map_.released(), 1u);
}

TEST(ChunkMapEndTest, GivesEverythingBack) {
  SimulatedDriver driver;
  const uint64_t base = *driver.ReserveRange(64 << 20);
  {
    ChunkMap map(&driver);
    uint64_t mapped = 0;
    ASSERT_TRUE(map.Map({base, 44 << 20}, &mapped).ok());
  }
  EXPECT_EQ(driver.live_bytes(), 0u);
  EXPECT_EQ(driver.open_objects(), 1u) << "the range";
}

}  // namespace
}  // namespace gpupool::engine
