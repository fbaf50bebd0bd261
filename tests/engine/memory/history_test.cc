#include "engine/memory/history.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(HistoryTest, IsOffUntilAsked) {
  History history;
  EXPECT_FALSE(history.on());
  EXPECT_TRUE(history.Events().empty());
}

TEST(HistoryTest, KeepsTheLastEventsOldestFirst) {
  History history;
  history.Start(3);
  for (uint64_t i = 0; i < 8; ++i) {
    history.Record({MemoryAction::kAlloc, i, 1, 0});
  }
  const std::vector<MemoryEvent> events = history.Events();
  ASSERT_EQ(events.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].address, 5 + i);
    EXPECT_GT(events[i].time_us, 0);
    EXPECT_GE(events[i].time_us, events[0].time_us);
  }
}

TEST(HistoryTest, StartForgets) {
  History history;
  history.Start(3);
  history.Record({MemoryAction::kAlloc, 1, 1, 0});
  history.Start(2);
  EXPECT_TRUE(history.Events().empty());
  history.Start(0);
  EXPECT_FALSE(history.on());
}

TEST(HistoryTest, ActionsHavePyTorchsNames) {
  EXPECT_EQ(MemoryActionName(MemoryAction::kAlloc), "alloc");
  EXPECT_EQ(MemoryActionName(MemoryAction::kFreeRequested), "free_requested");
  EXPECT_EQ(MemoryActionName(MemoryAction::kFreeCompleted), "free_completed");
  EXPECT_EQ(MemoryActionName(MemoryAction::kSegmentMap), "segment_map");
  EXPECT_EQ(MemoryActionName(MemoryAction::kSegmentUnmap), "segment_unmap");
  EXPECT_EQ(MemoryActionName(MemoryAction::kOutOfMemory), "oom");
}

}  // namespace
}  // namespace gpupool::engine
