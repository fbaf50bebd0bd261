#include "server/control/records/event_thinning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace gpupool::server {
namespace {

std::set<uint64_t> KeptOf(uint64_t count) {
  std::set<uint64_t> kept;
  for (uint64_t sequence = 1; sequence <= count; ++sequence) {
    kept.insert(sequence);
    for (uint64_t dropped : EventsToDrop(sequence)) {
      EXPECT_EQ(kept.erase(dropped), 1u) << dropped << " went twice";
    }
  }
  return kept;
}

TEST(EventThinningTest, TheNewestAreAllThere) {
  EXPECT_EQ(KeptOf(kEventsKept).size(), kEventsKept);
  const std::set<uint64_t> kept = KeptOf(10 * kEventsKept);
  for (uint64_t age = 0; age < kEventsKept; ++age) {
    ASSERT_TRUE(kept.contains(10 * kEventsKept - age)) << age;
  }
}

TEST(EventThinningTest, TheOlderTheThinner) {
  const uint64_t count = 64 * kEventsKept;
  const std::set<uint64_t> kept = KeptOf(count);
  double share = 0.5;
  for (uint64_t age = kEventsKept; age < count; age *= 2, share /= 2) {
    const auto from = kept.upper_bound(count - 2 * age);
    const auto to = kept.upper_bound(count - age);
    EXPECT_NEAR(static_cast<double>(std::distance(from, to)),
                static_cast<double>(age) * share, kEventsKept / 16.0)
        << "of the events older than " << age;
  }
  EXPECT_LT(kept.size(), 5 * kEventsKept);
}

TEST(EventThinningTest, NoKindIsDroppedMoreThanAnother) {
  const std::set<uint64_t> kept = KeptOf(16 * kEventsKept);
  for (uint64_t period : {2, 3, 10}) {
    const auto count = std::count_if(
        kept.begin(), kept.end(),
        [&](uint64_t sequence) { return sequence % period == 0; });
    EXPECT_NEAR(static_cast<double>(count) * static_cast<double>(period),
                static_cast<double>(kept.size()), 0.1 * kept.size())
        << "of every " << period;
  }
}

}  // namespace
}  // namespace gpupool::server
