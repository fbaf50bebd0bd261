#include "server/serving/tensor/data_type.h"

#include "gtest/gtest.h"
#include "server/ipc/slot_layout.h"

namespace gpupool::server {
namespace {

TEST(DataTypeTest, EveryModelTypeHasANameThatReadsBackAndASize) {
  for (int i = v1::DataType_MIN; i <= v1::DataType_MAX; ++i) {
    const auto type = static_cast<v1::DataType>(i);
    if (type == v1::DATA_TYPE_UNSPECIFIED) continue;
    EXPECT_EQ(ParseDataType(DataTypeName(type)), type);
    if (type == v1::STRING) continue;  // its elements have several sizes
    EXPECT_GT(ElementBytes(type), 0u) << v1::DataType_Name(type);
    const v1::DataType held = HeldType(type);
    EXPECT_EQ(SlotElementBytes(static_cast<uint32_t>(held)), ElementBytes(held))
        << v1::DataType_Name(type);
    EXPECT_EQ(HeldType(held), held) << v1::DataType_Name(type);
  }
}

TEST(DataTypeTest, SlotsHoldWidenedTypesInWiderOnes) {
  EXPECT_EQ(HeldType(v1::UINT16), v1::INT32);
  EXPECT_EQ(HeldType(v1::INT16), v1::INT32);
  EXPECT_EQ(HeldType(v1::UINT32), v1::INT64);
  EXPECT_EQ(HeldType(v1::UINT64), v1::INT64);
  EXPECT_EQ(HeldType(v1::UINT8), v1::UINT8);
  EXPECT_EQ(HeldType(v1::BFLOAT16), v1::BFLOAT16);
  EXPECT_EQ(HeldType(v1::DATA_TYPE_UNSPECIFIED), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ElementBytes(v1::UINT16), 2u);
  EXPECT_EQ(ElementBytes(v1::INT16), 2u);
  EXPECT_EQ(ElementBytes(v1::UINT32), 4u);
  EXPECT_EQ(ElementBytes(v1::UINT64), 8u);
}

TEST(DataTypeTest, TextsAreBytesForClientsAndStringsInAConfiguration) {
  EXPECT_EQ(DataTypeName(v1::STRING), "BYTES");
  EXPECT_EQ(ConfigTypeName(v1::STRING), "TYPE_STRING");
  EXPECT_EQ(ConfigTypeName(v1::FLOAT32), "TYPE_FP32");
  EXPECT_EQ(ElementBytes(v1::STRING), 0u);
}

TEST(DataTypeTest, UnknownNamesAreUnspecified) {
  EXPECT_EQ(ParseDataType("STRING"), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ParseDataType("fp32"), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ParseDataType(""), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ElementBytes(v1::DATA_TYPE_UNSPECIFIED), 0u);
}

}  // namespace
}  // namespace gpupool::server
