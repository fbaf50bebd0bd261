#include "engine/data/table.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(TableTest, ByteCountsAreCheckedForOverflow) {
  EXPECT_EQ(*CheckedTableBytes(10, 20, {}), 200u);
  EXPECT_FALSE(CheckedTableBytes(~0ull, 2, {}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, ~0ull, {}).ok());
  EXPECT_TRUE(CheckedTableBytes(2, 20, {.max_table_bytes = 40}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, 20, {.max_table_bytes = 39}).ok());
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
