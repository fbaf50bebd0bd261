#include "scheduler/state/need_history.h"

#include <gtest/gtest.h>

namespace gpupool::scheduler {
namespace {

JobNeed NeedOf(uint64_t bytes, uint32_t devices = 1) {
  return {.wanted_device = "", .devices = devices, .bytes = bytes, .host = {}};
}

TEST(NeedHistoryTest, TheMostFrequentNeedsShareTheWhole) {
  NeedHistory history;
  EXPECT_TRUE(history.typical().empty());
  for (int i = 0; i < 1000; ++i) {
    history.Add(i % 100 == 0 ? NeedOf(7, 8)
                : i % 10 < 6 ? NeedOf(10)
                             : NeedOf(10, 2));
  }
  const auto typical = history.typical();
  ASSERT_EQ(typical.size(), 2u) << "one in a hundred is not typical";
  EXPECT_EQ(typical[0].need, NeedOf(10));
  EXPECT_NEAR(typical[0].share, 0.6, 0.01);
  EXPECT_EQ(typical[1].need, NeedOf(10, 2));
  EXPECT_NEAR(typical[0].share + typical[1].share, 1, 1e-9);
}

TEST(NeedHistoryTest, HabitsThatChangeAreLearned) {
  NeedHistory history;
  for (int i = 0; i < 10; ++i) history.Add(NeedOf(10));
  for (int i = 0; i < 1000; ++i) history.Add(NeedOf(20));
  ASSERT_EQ(history.typical().size(), 1u);
  EXPECT_EQ(history.typical()[0].need, NeedOf(20));
}

TEST(NeedHistoryTest, AnyNumberOfDifferentNeedsTakesBoundedMemory) {
  NeedHistory history;
  for (uint64_t i = 0; i < 10 * NeedHistory::kMostNeeds; ++i) {
    history.Add(NeedOf(i));
    history.Add(NeedOf(5));
  }
  ASSERT_FALSE(history.typical().empty());
  EXPECT_LE(history.typical().size(), NeedHistory::kMostTypical);
  EXPECT_EQ(history.typical()[0].need, NeedOf(5));
}

}  // namespace
}  // namespace gpupool::scheduler
