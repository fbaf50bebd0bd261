#include "server/api/validation/field_range.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gpupool::server {
namespace {

TEST(FieldRangeTest, EndsBelongWhereTheIntervalSaysSo) {
  EXPECT_TRUE(CheckRange("x", 0, kShare).ok());
  EXPECT_FALSE(CheckRange("x", 1, kShare).ok());
  EXPECT_FALSE(CheckRange("x", 0, kInside).ok());
  EXPECT_TRUE(CheckRange("x", 1, kUpToOne).ok());
  EXPECT_FALSE(CheckRange("x", 0, kPositive).ok());
  EXPECT_TRUE(CheckRange("x", 0, kNotNegative).ok());
}

TEST(FieldRangeTest, NeitherInfinityNorNanIsInside) {
  EXPECT_FALSE(CheckRange("x", HUGE_VAL, kPositive).ok());
  EXPECT_FALSE(CheckRange("x", std::nan(""), kNotNegative).ok());
}

TEST(FieldRangeTest, TheErrorNamesFieldValueAndInterval) {
  EXPECT_EQ(CheckRange("training.ema.decay", 1.5, kInside).message(),
            "training.ema.decay is 1.5; it must be 0 < x < 1");
}

}  // namespace
}  // namespace gpupool::server
