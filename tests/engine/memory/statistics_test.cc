#include "engine/memory/statistics.h"

#include <gtest/gtest.h>

#include <map>

namespace gpupool::engine {
namespace {

TEST(MemoryFigureTest, KeepsPresentPeakAndSums) {
  MemoryFigure figure;
  figure.Add(10);
  figure.Subtract(4);
  figure.Add(2);
  EXPECT_EQ(figure.current, 8u);
  EXPECT_EQ(figure.peak, 10u);
  EXPECT_EQ(figure.allocated, 12u);
  EXPECT_EQ(figure.freed(), 4u);
  figure.MoveTo(20);
  figure.MoveTo(5);
  EXPECT_EQ(figure.allocated, 24u);
  EXPECT_EQ(figure.freed(), 19u);
  EXPECT_EQ(figure.peak, 20u);
}

TEST(MemoryFigureTest, ResetPeaksStartsFromThePresent) {
  MemoryFigures figures;
  figures.reserved_bytes.Add(10);
  figures.reserved_bytes.Subtract(7);
  figures.ResetPeaks();
  EXPECT_EQ(figures.reserved_bytes.peak, 3u);
}

TEST(MemoryStatisticsTest, HasAllOfPyTorchsNames) {
  MemoryStatistics statistics;
  statistics.figures[1].allocated_bytes.Add(7);
  statistics.retries = 3;
  const auto list = statistics.Named();
  const std::map<std::string, uint64_t> named(list.begin(), list.end());
  EXPECT_EQ(named.size(), list.size()) << "a name stands once";
  for (const char* figure :
       {"allocation", "segment", "active", "inactive_split", "allocated_bytes",
        "reserved_bytes", "active_bytes", "inactive_split_bytes",
        "requested_bytes"}) {
    for (const char* pool : {"all", "small_pool", "large_pool"}) {
      for (const char* of : {"current", "peak", "allocated", "freed"}) {
        const std::string name = std::string(figure) + "." + pool + "." + of;
        EXPECT_TRUE(named.contains(name)) << name;
      }
    }
  }
  EXPECT_EQ(named.at("allocated_bytes.small_pool.peak"), 7u);
  EXPECT_EQ(named.at("num_alloc_retries"), 3u);
  for (const char* name : {"num_ooms", "num_sync_all_streams",
                           "num_device_alloc", "num_device_free"}) {
    EXPECT_TRUE(named.contains(name)) << name;
  }
}

TEST(MemoryStatisticsTest, FragmentationIsTheShareThatIsLost) {
  MemoryStatistics statistics;
  EXPECT_EQ(statistics.internal_fragmentation(), 0);
  EXPECT_EQ(statistics.external_fragmentation(), 0);
  statistics.requested_bytes = 75;
  statistics.held_block_bytes = 100;
  statistics.largest_free_bytes = 20;
  statistics.figures[0].inactive_split_bytes.Add(80);
  EXPECT_DOUBLE_EQ(statistics.internal_fragmentation(), 0.25);
  EXPECT_DOUBLE_EQ(statistics.external_fragmentation(), 0.75);
}

}  // namespace
}  // namespace gpupool::engine
