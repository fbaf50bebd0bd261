#include "engine/runtime/host_ranges.h"

#include <gtest/gtest.h>

#include <array>

namespace gpupool::engine {
namespace {

class HostRangesTest : public ::testing::Test {
 protected:
  absl::Span<const std::byte> Part(size_t begin, size_t end) const {
    return absl::MakeConstSpan(memory_).subspan(begin, end - begin);
  }

  std::array<std::byte, 100> memory_ = {};
  HostRanges ranges_;
};

TEST_F(HostRangesTest, HoldsWhatLiesInsideOneRangeOnly) {
  EXPECT_FALSE(ranges_.Hold(Part(0, 1)));
  ASSERT_TRUE(ranges_.Add(Part(10, 20)));
  ASSERT_TRUE(ranges_.Add(Part(20, 30)));
  EXPECT_TRUE(ranges_.Hold(Part(10, 20)));
  EXPECT_TRUE(ranges_.Hold(Part(12, 13)));
  EXPECT_TRUE(ranges_.Hold(Part(29, 30)));
  EXPECT_FALSE(ranges_.Hold(Part(9, 11)));
  EXPECT_FALSE(ranges_.Hold(Part(15, 25)));
  EXPECT_FALSE(ranges_.Hold(Part(25, 31)));
  EXPECT_FALSE(ranges_.Hold(Part(40, 50)));
  EXPECT_FALSE(ranges_.Hold(Part(15, 15)));
}

TEST_F(HostRangesTest, OverlapsAndNothingAreRefused) {
  ASSERT_TRUE(ranges_.Add(Part(10, 20)));
  EXPECT_FALSE(ranges_.Add(Part(10, 20)));
  EXPECT_FALSE(ranges_.Add(Part(5, 11)));
  EXPECT_FALSE(ranges_.Add(Part(19, 25)));
  EXPECT_FALSE(ranges_.Add(Part(12, 14)));
  EXPECT_FALSE(ranges_.Add(Part(5, 50)));
  EXPECT_FALSE(ranges_.Add(Part(30, 30)));
  EXPECT_EQ(ranges_.size(), 1u);
}

TEST_F(HostRangesTest, WhatWasRemovedIsHeldNoLonger) {
  ASSERT_TRUE(ranges_.Add(Part(10, 20)));
  ASSERT_TRUE(ranges_.Add(Part(20, 30)));
  ranges_.Remove(Part(10, 20));
  EXPECT_FALSE(ranges_.Hold(Part(10, 11)));
  EXPECT_TRUE(ranges_.Hold(Part(20, 30)));
  EXPECT_TRUE(ranges_.Add(Part(0, 20)));
}

}  // namespace
}  // namespace gpupool::engine
