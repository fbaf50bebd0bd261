#include "scheduler/place/fragmentation.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;

std::vector<TypicalNeed> Mix() {
  return {{{.bytes = 1000}, 0.5},
          {{.devices = 2, .bytes = 1000}, 0.25},
          {{.bytes = 400}, 0.25}};
}

double Of(std::vector<uint64_t> free) {
  return Fragmentation({"gpu", std::move(free)}, {}, Mix());
}

SiteChoice Choose(std::vector<uint64_t> free, const SiteNeed& need,
                  const std::vector<TypicalNeed>& mix = Mix()) {
  std::vector<size_t> usable;
  for (size_t i = 0; i < free.size(); ++i) {
    if (free[i] >= need.bytes) usable.push_back(i);
  }
  const SiteSpace site{"gpu", std::move(free)};
  return LeastFragmenting(
      {.machine = {}, .sites = {&site, 1}, .usable = usable}, need, mix);
}

TEST(FragmentationTest, WhatEveryJobCanUseIsNoFragment) {
  EXPECT_DOUBLE_EQ(Of({1000, 1000}), 0);
  EXPECT_DOUBLE_EQ(Of({0, 0}), 0);
  EXPECT_DOUBLE_EQ(Of({}), 0);
}

TEST(FragmentationTest, WhatAJobCannotUseCountsByHowOftenItComes) {
  EXPECT_DOUBLE_EQ(Of({1000, 0}), 0.25 * 1000) << "for the job on two";
  EXPECT_DOUBLE_EQ(Of({600, 0}), 0.75 * 600) << "only the small one fits";
  EXPECT_DOUBLE_EQ(Of({1000, 300}), 0.25 * 1300 + 0.75 * 300);
}

TEST(FragmentationTest, WithoutTheRestOfTheMachineAllIsFragment) {
  const std::vector<TypicalNeed> mix = {
      {{.bytes = 1000}, 0.75},
      {{.devices = 2, .bytes = 400, .host = {.milli_cores = 4}}, 0.25}};
  const SiteSpace site{"gpu", {1000, 1000}};
  Machine machine{.limit = {.milli_cores = 8}};
  EXPECT_DOUBLE_EQ(Fragmentation(site, machine, mix), 0);
  machine.used.milli_cores = 1;
  EXPECT_DOUBLE_EQ(Fragmentation(site, machine, mix), 0.25 * 2000);
}

TEST(FragmentationTest, JobsOfAnotherKindDoNotCount) {
  const std::vector<TypicalNeed> mix = {
      {{.wanted_device = "cpu", .bytes = 1000}, 0.5},
      {{.wanted_device = "gpu", .bytes = 400}, 0.5}};
  EXPECT_DOUBLE_EQ(Fragmentation({"gpu", {300, 500}}, {}, mix), 0.5 * 300);
}

TEST(LeastFragmentingTest, ASmallJobGoesWhereOnlySmallOnesFit) {
  const SiteChoice choice = Choose({1000, 600, 1000}, {.bytes = 400});
  EXPECT_THAT(choice.devices, ElementsAre(1));
  const SiteChoice breaks = Choose({1000, 1000}, {.bytes = 400});
  EXPECT_GT(breaks.growth, choice.growth);
}

TEST(LeastFragmentingTest, ALargeJobTakesTheFullestDevicesWithRoom) {
  const SiteChoice choice =
      Choose({1000, 500, 700, 900}, {.devices = 2, .bytes = 600});
  EXPECT_THAT(choice.devices, ElementsAre(2, 3));
}

TEST(LeastFragmentingTest, CoresThatTheOthersOfAMachineNeedAreCounted) {
  const std::vector<TypicalNeed> mix = {
      {{.wanted_device = "gpu", .bytes = 1000, .host = {.milli_cores = 4}}, 1}};
  const std::vector<SiteSpace> sites = {{"gpu", {1000}}, {"host", {0}}};
  const Machine machine{.limit = {.milli_cores = 6}};
  const std::vector<size_t> usable = {0};
  const auto growth = [&](uint64_t cores) {
    return LeastFragmenting(
               {.machine = machine, .sites = sites, .at = 1, .usable = usable},
               {.bytes = 0, .host = {.milli_cores = cores}}, mix)
        .growth;
  };
  EXPECT_DOUBLE_EQ(growth(2), 0);
  EXPECT_DOUBLE_EQ(growth(3), 1000) << "no job for the device has its cores";
}

TEST(LeastFragmentingTest, TheGrowthIsTheDifferenceOfFragmentations) {
  std::mt19937 random(7);
  SCOPED_TRACE("seed 7");
  const std::vector<TypicalNeed> mix = {
      {{.bytes = 1000, .host = {.milli_cores = 8}}, 0.3},
      {{.bytes = 400}, 0.3},
      {{.devices = 4, .bytes = 1000}, 0.2},
      {{.bytes = 250, .host = {.milli_cores = 2}}, 0.2}};
  for (int round = 0; round < 200; ++round) {
    SiteSpace site{"gpu", {}};
    for (int i = 0; i < 6; ++i) site.free.push_back(random() % 11 * 100);
    const Machine machine{.limit = {.milli_cores = 1 + random() % 12}};
    const SiteNeed need{.devices = static_cast<uint32_t>(1 + random() % 2),
                        .bytes = (1 + random() % 9) * 100,
                        .host = {.milli_cores = random() % 3}};
    std::vector<size_t> usable;
    for (size_t i = 0; i < site.free.size(); ++i) {
      if (site.free[i] >= need.bytes) usable.push_back(i);
    }
    if (usable.size() < need.devices) continue;
    const SiteChoice choice = LeastFragmenting(
        {.machine = machine, .sites = {&site, 1}, .usable = usable}, need, mix);
    const double before = Fragmentation(site, machine, mix);
    for (size_t device : choice.devices) site.free[device] -= need.bytes;
    Machine after = machine;
    after.used.milli_cores += need.devices * need.host.milli_cores;
    EXPECT_NEAR(choice.growth, Fragmentation(site, after, mix) - before, 1e-9);
  }
}

}  // namespace
}  // namespace gpupool::scheduler
