#include "scheduler/state/waiting_jobs.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;

Shape Devices(uint32_t count) {
  return {.wanted_device = "", .devices = count};
}

QueueKey Key(double standing, uint64_t job) {
  return {.standing = standing, .job = JobId(job)};
}

std::vector<uint64_t> HeadsOf(const WaitingJobs& waiting,
                              const WaitingGroup& group) {
  std::vector<uint64_t> ids;
  for (const auto& [key, shape] : waiting.heads().at(group)) {
    EXPECT_EQ(*shape->second.begin(), key);
    ids.push_back(key.job.value());
  }
  return ids;
}

TEST(WaitingJobs, ACopyHasHeadsOfItsOwn) {
  WaitingJobs waiting;
  waiting.Add(Key(5, 1), Devices(1), {});
  waiting.Add(Key(3, 2), Devices(2), {});
  WaitingJobs copy(waiting);
  waiting.Remove(Key(3, 2), Devices(2), {});
  EXPECT_THAT(HeadsOf(copy, {}), ElementsAre(2, 1));
  EXPECT_THAT(HeadsOf(waiting, {}), ElementsAre(1));
  EXPECT_EQ(copy.all().size(), 2u);
}

TEST(WaitingJobs, TheFirstOfEachShapeIsItsHead) {
  WaitingJobs waiting;
  waiting.Add(Key(5, 1), Devices(1), {});
  waiting.Add(Key(3, 2), Devices(2), {});
  waiting.Add(Key(4, 3), Devices(1), {});
  EXPECT_THAT(HeadsOf(waiting, {}), ElementsAre(2, 3));
  waiting.Remove(Key(4, 3), Devices(1), {});
  EXPECT_THAT(HeadsOf(waiting, {}), ElementsAre(2, 1));
}

TEST(WaitingJobs, GroupsAndShapesGoWithTheirLastJob) {
  WaitingJobs waiting;
  waiting.Add(Key(0, 1), {.devices = 1, .tenant = "a"}, {0, "a"});
  waiting.Add(Key(0, 2), {.devices = 1, .tenant = "b"}, {0, "b"});
  EXPECT_THAT(HeadsOf(waiting, {0, "a"}), ElementsAre(1));
  waiting.Remove(Key(0, 1), {.devices = 1, .tenant = "a"}, {0, "a"});
  EXPECT_FALSE(waiting.heads().contains({0, "a"}));
  EXPECT_EQ(waiting.shapes().size(), 1u);
  EXPECT_EQ(waiting.all().size(), 1u);
}

TEST(WaitingJobs, WhatIsNotThereIsNotMissed) {
  WaitingJobs waiting;
  waiting.Remove(Key(0, 1), Devices(1), {});
  EXPECT_TRUE(waiting.all().empty());
}

TEST(WaitingJobs, HeadsHoldThroughAnyOrderOfComingAndGoing) {
  constexpr uint32_t kSeed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  WaitingJobs waiting;
  std::map<QueueKey, uint32_t> there;
  for (uint64_t id = 1; id <= 2000; ++id) {
    const auto shape = static_cast<uint32_t>(1 + random() % 7);
    const QueueKey key = Key(static_cast<double>(random() % 10), id);
    waiting.Add(key, Devices(shape), {});
    there[key] = shape;
    if (random() % 3 == 0) continue;
    auto gone =
        std::next(there.begin(), static_cast<int64_t>(random() % there.size()));
    waiting.Remove(gone->first, Devices(gone->second), {});
    there.erase(gone);
    std::map<uint32_t, uint64_t> first;
    for (const auto& [of, devices] : there) {
      first.emplace(devices, of.job.value());
    }
    ASSERT_EQ(waiting.shapes().size(), first.size());
    if (first.empty()) continue;
    size_t heads = 0;
    for (uint64_t head : HeadsOf(waiting, {})) {
      ++heads;
      ASSERT_TRUE(std::any_of(first.begin(), first.end(), [&](const auto& of) {
        return of.second == head;
      }));
    }
    ASSERT_EQ(heads, first.size());
  }
}

}  // namespace
}  // namespace gpupool::scheduler
