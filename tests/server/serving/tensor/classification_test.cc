#include "server/serving/tensor/classification.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/tensor/bytes_elements.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Classes {
  uint64_t rows = 1;
  uint64_t classes = 1;
  std::vector<std::string> labels = {};
};

template <typename T>
std::vector<std::string> TopOf(v1::DataType type, const std::vector<T>& values,
                               const Classes& wanted) {
  const std::string raw =
      Classify({.type = type,
                .rows = wanted.rows,
                .elements = values.size() / wanted.rows,
                .bytes = absl::MakeConstSpan(
                    reinterpret_cast<const std::byte*>(values.data()),
                    values.size() * sizeof(T)),
                .labels = wanted.labels},
               wanted.classes);
  const auto elements = ReadBytesElements(raw, wanted.rows * wanted.classes);
  EXPECT_TRUE(elements.ok()) << elements.status();
  if (!elements.ok()) return {};
  return {elements->begin(), elements->end()};
}

TEST(ClassificationTest, EachRowHasItsLargestElementsFirst) {
  EXPECT_THAT(
      TopOf<float>(v1::FLOAT32, {0.25F, 3, -1, 7, 8, 9},
                   {.rows = 2, .classes = 2}),
      ElementsAre("3.000000:1", "0.250000:0", "9.000000:2", "8.000000:1"));
}

TEST(ClassificationTest, LabelsFollowTheIndex) {
  EXPECT_THAT(TopOf<float>(v1::FLOAT32, {1, 2, 3, 4},
                           {.classes = 4, .labels = {"cat", "", "a:b"}}),
              ElementsAre("4.000000:3", "3.000000:2:a:b", "2.000000:1",
                          "1.000000:0:cat"));
}

TEST(ClassificationTest, EqualElementsKeepTheirOrderAndNanIsLast) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(TopOf<float>(v1::FLOAT32, {kNan, 1, -kInfinity, 1, kInfinity},
                           {.classes = 5}),
              ElementsAre("inf:4", "1.000000:1", "1.000000:3", "-inf:2",
                          ::testing::AnyOf("nan:0", "-nan:0")));
}

TEST(ClassificationTest, EveryTypeOfNumbersIsRead) {
  EXPECT_THAT(TopOf<double>(v1::FLOAT64, {1, 1e300}, {}),
              ElementsAre(std::to_string(1e300) + ":1"));
  EXPECT_THAT(TopOf<int8_t>(v1::INT8, {-5, -128}, {}), ElementsAre("-5:0"));
  EXPECT_THAT(TopOf<uint8_t>(v1::UINT8, {5, 200}, {}), ElementsAre("200:1"));
  EXPECT_THAT(TopOf<int16_t>(v1::INT16, {-5, 300}, {}), ElementsAre("300:1"));
  EXPECT_THAT(TopOf<uint16_t>(v1::UINT16, {1, 65535}, {}),
              ElementsAre("65535:1"));
  EXPECT_THAT(TopOf<int32_t>(v1::INT32, {-70000, 5}, {}), ElementsAre("5:1"));
  EXPECT_THAT(TopOf<uint32_t>(v1::UINT32, {1, 4294967295}, {}),
              ElementsAre("4294967295:1"));
  EXPECT_THAT(
      TopOf<int64_t>(v1::INT64, {9007199254740993, 9007199254740992}, {}),
      ElementsAre("9007199254740993:0"))
      << "exact beyond double";
  EXPECT_THAT(TopOf<uint64_t>(v1::UINT64, {1, uint64_t{1} << 62}, {}),
              ElementsAre("4611686018427387904:1"));
}

TEST(ClassificationTest, NumbersOfSixteenBitsAreWidened) {
  // 1.5, -2, the least subnormal number, infinity.
  EXPECT_THAT(TopOf<uint16_t>(v1::FLOAT16, {0x3e00, 0xc000, 0x0001, 0x7c00},
                              {.classes = 4}),
              ElementsAre("inf:3", "1.500000:0", "0.000000:2", "-2.000000:1"));
  EXPECT_THAT(TopOf<uint16_t>(v1::FLOAT16, {0x7bff, 0x7e00}, {.classes = 2}),
              ElementsAre("65504.000000:0", ::testing::EndsWith("nan:1")));
  EXPECT_THAT(TopOf<uint16_t>(v1::BFLOAT16, {0x3fc0, 0xc000}, {.classes = 2}),
              ElementsAre("1.500000:0", "-2.000000:1"));
}

TEST(ClassificationTest, ARowWithoutElementsHasNoClasses) {
  EXPECT_THAT(TopOf<float>(v1::FLOAT32, {}, {.classes = 0}), ElementsAre());
}

TEST(ClassificationTest, WhatIsNoNumberIsRefused) {
  EXPECT_TRUE(CheckClassified("y", v1::BFLOAT16).ok());
  const absl::Status status = CheckClassified("y", v1::BOOL);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("output 'y' of datatype BOOL"));
}

}  // namespace
}  // namespace gpupool::server
