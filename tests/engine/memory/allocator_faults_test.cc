// Every call to the driver fails once, in turn. Nothing may be lost, and all
// counts must stay correct.
#include <gtest/gtest.h>

#include <vector>

#include "engine/memory/caching_allocator.h"
#include "tests/engine/memory/allocator_invariants.h"
#include "tests/engine/memory/byte_units.h"
#include "tests/engine/memory/simulated_driver.h"

namespace gpupool::engine {
namespace {

const Owner kOwner{"job 7", "arena"};

// Grows, leaves holes, trims for the limit, fills holes and empties the cache.
// Returns how many requests failed.
int Work(CachingAllocator& allocator, const SimulatedDriver& driver) {
  std::vector<Allocation> blocks;
  int failures = 0;
  const auto allocate = [&](uint64_t bytes) {
    auto block = allocator.Allocate(bytes, kOwner);
    if (block.ok()) {
      blocks.push_back(*std::move(block));
    } else {
      blocks.emplace_back();
      ++failures;
    }
    CheckInvariants(allocator, driver);
  };
  for (const uint64_t mib : {3, 40, 5, 2, 9}) allocate(mib * kMiB);
  blocks[1].Reset();
  blocks[3].Reset();
  allocator.EmptyCache();
  CheckInvariants(allocator, driver);
  allocate(30 * kMiB);
  allocate(300);
  blocks[0].Reset();
  blocks[2].Reset();
  allocate(20 * kMiB);  // more than the limit unless memory is trimmed
  allocate(4 * kMiB);
  return failures;
}

uint64_t CallsWithoutFaults() {
  SimulatedDriver driver;
  {
    CachingAllocator allocator("cuda:0", 64 * kMiB, &driver);
    EXPECT_EQ(Work(allocator, driver), 0);
    EXPECT_GT(allocator.Statistics().retries, 0u) << "the limit never mattered";
  }
  EXPECT_EQ(driver.open_objects(), 0u);
  return driver.calls();
}

class AllocatorFaultsTest : public ::testing::TestWithParam<bool> {};

TEST_P(AllocatorFaultsTest, EveryDriverCallMayFail) {
  const uint64_t calls = CallsWithoutFaults();
  ASSERT_GT(calls, 30u);
  for (uint64_t call = 1; call <= calls; ++call) {
    SCOPED_TRACE(::testing::Message() << "call " << call);
    SimulatedDriver driver;
    driver.FailCall(call, GetParam());
    {
      CachingAllocator allocator("cuda:0", 64 * kMiB, &driver);
      // A device that is full once is asked again. A device with a fault is
      // not, and the request fails with the fault.
      EXPECT_LE(Work(allocator, driver), 1);
    }
    EXPECT_TRUE(driver.violations().empty()) << driver.violations().front();
    // Only a chunk or a range that the driver did not take back may be left, at
    // most once each.
    EXPECT_LE(driver.open_objects(), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(FullAndBroken, AllocatorFaultsTest, ::testing::Bool());

TEST(AllocatorFaultTest, FaultOfTheDeviceIsPassedOn) {
  SimulatedDriver driver;
  driver.FailCall(2, true);
  CachingAllocator allocator("cuda:0", 64 * kMiB, &driver);
  const auto block = allocator.Allocate(100, kOwner);
  EXPECT_EQ(block.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(allocator.Statistics().out_of_memory, 0u);
  EXPECT_TRUE(allocator.Allocate(100, kOwner).ok());
}

TEST(AllocatorFaultTest, ScarceAddressesMakeRangesSmaller) {
  SimulatedDriver driver({.most_range_bytes = 40 * kMiB});
  CachingAllocator allocator("cuda:0", 64 * kMiB, &driver);
  auto a = allocator.Allocate(30 * kMiB, kOwner);
  auto b = allocator.Allocate(20 * kMiB, kOwner);
  EXPECT_TRUE(a.ok() && b.ok());
  CheckInvariants(allocator, driver);
  a->Reset();
  EXPECT_TRUE(absl::IsResourceExhausted(
      allocator.Allocate(42 * kMiB, kOwner).status()));
}

}  // namespace
}  // namespace gpupool::engine
