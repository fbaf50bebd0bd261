#include "scheduler/state/host.h"

#include <gtest/gtest.h>

#include <limits>

namespace gpupool::scheduler {
namespace {

constexpr uint32_t kAny = std::numeric_limits<uint32_t>::max();

TEST(MachineTest, HoldsAsManyAsTheScarcerOfBothAllows) {
  const Machine machine{
      .limit = {.milli_cores = 8000, .bytes = 100},
      .used = {.milli_cores = 2000, .bytes = 10},
  };
  EXPECT_EQ(machine.Holds({.milli_cores = 1500}), 4u);
  EXPECT_EQ(machine.Holds({.milli_cores = 1500, .bytes = 45}), 2u);
  EXPECT_EQ(machine.Holds({.milli_cores = 6001}), 0u);
  EXPECT_EQ(machine.EverHolds({.milli_cores = 6001}), 1u);
  EXPECT_EQ(machine.EverHolds({.milli_cores = 8001}), 0u);
}

TEST(MachineTest, WhatNobodyHasSaidLimitsNothing) {
  const Machine unknown{.used = {.milli_cores = 5, .bytes = 5}};
  EXPECT_EQ(unknown.Holds({.milli_cores = 1'000'000, .bytes = 1 << 30}), kAny);
  const Machine known{.limit = {.milli_cores = 1000, .bytes = 1000}};
  EXPECT_EQ(known.Holds({}), kAny);
  EXPECT_TRUE(HostNeed{}.none());
}

TEST(MachineTest, AMachineThatWasMadeSmallerHoldsNothing) {
  const Machine machine{.limit = {.milli_cores = 1000},
                        .used = {.milli_cores = 2000}};
  EXPECT_EQ(machine.Holds({.milli_cores = 1}), 0u);
  EXPECT_EQ(machine.free().milli_cores, 0u);
}

}  // namespace
}  // namespace gpupool::scheduler
