#include "engine/data/table.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(TableTest, ByteCountsAreCheckedForOverflow) {
  EXPECT_EQ(*CheckedTableBytes(10, 3, 2, {}), 10u * (3 * 4 + 2 * 4));
  EXPECT_FALSE(CheckedTableBytes(~0ull, 1, 1, {}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, ~0ull, 1, {}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, 1, ~0ull, {}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, 1, ~0ull >> 2, {}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, 3, 2, {.max_table_bytes = 39}).ok());
}

TEST(TableTest, ShapesMustBePositiveAndBounded) {
  EXPECT_EQ(*CheckedElementCount({2, 3}), 6u);
  EXPECT_EQ(*CheckedElementCount({}), 1u);
  EXPECT_FALSE(CheckedElementCount({2, 0}).ok());
  EXPECT_FALSE(CheckedElementCount({-2, -2}).ok());
  EXPECT_FALSE(CheckedElementCount({1 << 30, 1 << 30}).ok());
  EXPECT_FALSE(CheckedElementCount({INT64_MAX, INT64_MAX}).ok());
}

}  // namespace
}  // namespace gpupool::engine
