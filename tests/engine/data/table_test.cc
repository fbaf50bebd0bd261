#include "engine/data/table.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(TableTest, ClassesNeedWholeLabelsFromZero) {
  Table table;
  table.labels = {0, 4, 2};
  DeriveClasses(table);
  EXPECT_EQ(table.class_count, 5u);
  for (float label : {-1.0f, 0.5f, 1e9f}) {
    table.labels = {0, label};
    DeriveClasses(table);
    EXPECT_EQ(table.class_count, 0u) << label;
    EXPECT_TRUE(table.classes.empty());
  }
}

TEST(TableTest, ByteCountsAreCheckedForOverflow) {
  EXPECT_EQ(*CheckedTableBytes(10, 3, {}), 10u * (3 * 4 + 8));
  EXPECT_FALSE(CheckedTableBytes(~0ull, 1, {}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, ~0ull, {}).ok());
  EXPECT_FALSE(CheckedTableBytes(2, 3, {.max_table_bytes = 39}).ok());
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
