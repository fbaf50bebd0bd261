#include "tests/engine/runtime/allocation_counter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

TEST(AllocationCounterTest, SeesAllocationsOfThisBinary) {
  const AllocationCounter counter;
  EXPECT_EQ(counter.ours(), 0u);
  auto number = std::make_unique<int>(1);
  std::vector<int> numbers(100);
  numbers[3] = *number;
  EXPECT_GE(counter.ours(), 2u);
}

}  // namespace
}  // namespace gpupool::engine
