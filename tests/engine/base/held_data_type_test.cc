#include "engine/base/held_data_type.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(HeldDataTypeTest, WidenedTypesAreHeldInWiderOnes) {
  // UINT16 and INT16 in INT32, UINT32 and UINT64 in INT64.
  EXPECT_EQ(HeldDataType(10), 3u);
  EXPECT_EQ(HeldDataType(11), 3u);
  EXPECT_EQ(HeldDataType(12), 4u);
  EXPECT_EQ(HeldDataType(13), 4u);
}

TEST(HeldDataTypeTest, AllOtherNumbersStay) {
  for (uint32_t type = 0; type < 10; ++type) {
    EXPECT_EQ(HeldDataType(type), type);
  }
  EXPECT_EQ(HeldDataType(14), 14u);
  EXPECT_EQ(HeldDataType(UINT32_MAX), UINT32_MAX);
}

}  // namespace
}  // namespace gpupool::engine
