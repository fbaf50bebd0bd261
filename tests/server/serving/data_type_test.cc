#include "server/serving/data_type.h"

#include "gtest/gtest.h"
#include "server/ipc/slot_layout.h"

namespace gpupool::server {
namespace {

TEST(DataTypeTest, EveryModelTypeHasANameThatReadsBackAndASize) {
  for (int i = v1::DataType_MIN; i <= v1::DataType_MAX; ++i) {
    const auto type = static_cast<v1::DataType>(i);
    if (type == v1::DATA_TYPE_UNSPECIFIED) continue;
    EXPECT_EQ(ParseDataType(DataTypeName(type)), type);
    EXPECT_GT(ElementBytes(type), 0u) << v1::DataType_Name(type);
    EXPECT_EQ(SlotElementBytes(static_cast<uint32_t>(i)), ElementBytes(type))
        << v1::DataType_Name(type);
  }
}

TEST(DataTypeTest, UnknownNamesAreUnspecified) {
  EXPECT_EQ(ParseDataType("BYTES"), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ParseDataType("fp32"), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ParseDataType(""), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ElementBytes(v1::DATA_TYPE_UNSPECIFIED), 0u);
}

}  // namespace
}  // namespace gpupool::server
