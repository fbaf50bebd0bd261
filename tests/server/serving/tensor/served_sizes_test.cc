#include "server/serving/tensor/served_sizes.h"

#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

SizedDimension Listed(bool padded) {
  return {.name = "sequence",
          .minimum = 4,
          .maximum = 16,
          .sizes = {4, 8, 16},
          .padded = padded};
}

TEST(SizeToServeTest, PaddedSizesAreRoundedUp) {
  for (const auto& [size, served] :
       {std::pair{1, 4}, {4, 4}, {5, 8}, {16, 16}}) {
    const auto found = SizeToServe("'m'", "ids", Listed(true), size);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, served);
  }
}

TEST(SizeToServeTest, SizesOutOfRangeNameEverything) {
  for (int64_t size : {int64_t{0}, int64_t{17}, int64_t{-3}}) {
    const auto status =
        SizeToServe("'m' version 1", "ids", Listed(true), size).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'sequence' of input 'ids' is"),
                      HasSubstr("'m' version 1 takes 1 to 16")));
  }
}

TEST(SizeToServeTest, WithoutPaddingListedSizesMustBeExact) {
  EXPECT_EQ(*SizeToServe("'m'", "ids", Listed(false), 8), 8);
  const auto status = SizeToServe("'m'", "ids", Listed(false), 7).status();
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("takes 4, 8, 16"), HasSubstr("upload the model with "
                                                   "padding")));
}

TEST(SizeToServeTest, SizesMayBeZeroWhereTheyAreServed) {
  const SizedDimension range{.name = "past", .minimum = 0, .maximum = 5};
  EXPECT_EQ(*SizeToServe("'m'", "x", range, 0), 0);
  EXPECT_FALSE(SizeToServe("'m'", "x", range, -1).ok());
  SizedDimension listed{.name = "past", .maximum = 8, .sizes = {0, 4, 8}};
  EXPECT_EQ(*SizeToServe("'m'", "x", listed, 0), 0);
  EXPECT_FALSE(SizeToServe("'m'", "x", listed, 3).ok());
  listed.padded = true;
  EXPECT_EQ(*SizeToServe("'m'", "x", listed, 0), 0);
  EXPECT_EQ(*SizeToServe("'m'", "x", listed, 3), 4);
}

TEST(SizeToServeTest, RangesAreExact) {
  const SizedDimension range{.name = "s", .minimum = 2, .maximum = 5};
  EXPECT_EQ(*SizeToServe("'m'", "x", range, 3), 3);
  EXPECT_FALSE(SizeToServe("'m'", "x", range, 1).ok());
  EXPECT_FALSE(SizeToServe("'m'", "x", range, 6).ok());
}

TEST(SizedDimensionsTest, AreSortedWithBothEnds) {
  v1::ModelSpec spec;
  auto& served = *spec.mutable_onnx()->mutable_served_dimensions();
  served["width"].add_sizes(3);
  served["width"].add_sizes(9);
  served["height"].set_minimum(1);
  served["height"].set_maximum(7);
  const auto dimensions = SizedDimensions(spec);
  ASSERT_EQ(dimensions.size(), 2u);
  EXPECT_EQ(dimensions[0].name, "height");
  EXPECT_EQ(dimensions[0].maximum, 7);
  EXPECT_EQ(dimensions[1].minimum, 3);
  EXPECT_EQ(dimensions[1].maximum, 9);
}

template <typename Number>
Number ElementAs(v1::DataType type, double number) {
  const std::vector<std::byte> bytes = ElementOf(type, number);
  Number element{};
  EXPECT_EQ(bytes.size(), sizeof(element));
  std::memcpy(&element, bytes.data(), sizeof(element));
  return element;
}

TEST(ElementOfTest, AreOfTheInputsType) {
  EXPECT_EQ(ElementAs<float>(v1::FLOAT32, -1.5), -1.5f);
  EXPECT_EQ(ElementAs<double>(v1::FLOAT64, 0.1), 0.1);
  EXPECT_EQ(ElementAs<int64_t>(v1::INT64, -100), -100);
  EXPECT_EQ(ElementAs<int32_t>(v1::INT32, 7), 7);
  EXPECT_EQ(ElementAs<int8_t>(v1::INT8, -7), -7);
  EXPECT_EQ(ElementAs<uint8_t>(v1::UINT8, 200), 200);
  EXPECT_EQ(ElementAs<uint8_t>(v1::BOOL, 1), 1);
  // Written-out IEEE 754 binary16 and bfloat16.
  EXPECT_EQ(ElementAs<uint16_t>(v1::FLOAT16, 0), 0x0000);
  EXPECT_EQ(ElementAs<uint16_t>(v1::FLOAT16, 1), 0x3c00);
  EXPECT_EQ(ElementAs<uint16_t>(v1::FLOAT16, -2.5), 0xc100);
  EXPECT_EQ(ElementAs<uint16_t>(v1::FLOAT16, 65504), 0x7bff);
  EXPECT_EQ(ElementAs<uint16_t>(v1::FLOAT16, std::ldexp(1.0, -14)), 0x0400);
  EXPECT_EQ(ElementAs<uint16_t>(v1::FLOAT16, std::ldexp(1.0, -24)), 0x0001);
  EXPECT_EQ(ElementAs<uint16_t>(v1::FLOAT16, -INFINITY), 0xfc00);
  EXPECT_EQ(ElementAs<uint16_t>(v1::BFLOAT16, 1), 0x3f80);
  EXPECT_EQ(ElementAs<uint16_t>(v1::BFLOAT16, -INFINITY), 0xff80);
}

std::vector<uint8_t> Pad(std::vector<int64_t> from, std::vector<uint8_t> data,
                         std::vector<int64_t> to) {
  size_t count = 1;
  for (int64_t size : to) count *= static_cast<size_t>(size);
  std::vector<uint8_t> result(count, 77);
  const std::byte element{9};
  PadTensor({from, reinterpret_cast<const std::byte*>(data.data())},
            {&element, 1}, {to, reinterpret_cast<std::byte*>(result.data())});
  return result;
}

TEST(PadTensorTest, FillsUpBehindTheCorner) {
  EXPECT_THAT(Pad({2, 2}, {1, 2, 3, 4}, {2, 3}), ElementsAre(1, 2, 9, 3, 4, 9));
  EXPECT_THAT(Pad({1, 2, 1}, {1, 2}, {1, 3, 2}), ElementsAre(1, 9, 2, 9, 9, 9));
  EXPECT_THAT(Pad({2}, {1, 2}, {2}), ElementsAre(1, 2));
  EXPECT_THAT(Pad({}, {5}, {}), ElementsAre(5));
}

TEST(PadTensorTest, CuttingUndoesFillingUp) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> small, large;
    size_t count = 1;
    size_t room = 1;
    for (uint32_t d = 0; d < 1 + random() % 4; ++d) {
      small.push_back(1 + random() % 4);
      large.push_back(small.back() + random() % 3);
      count *= static_cast<size_t>(small.back());
      room *= static_cast<size_t>(large.back());
    }
    std::vector<uint16_t> data(count), filled(room), back(count);
    for (uint16_t& number : data) number = static_cast<uint16_t>(random());
    const std::byte element[2] = {};
    PadTensor({small, reinterpret_cast<const std::byte*>(data.data())}, element,
              {large, reinterpret_cast<std::byte*>(filled.data())});
    CutTensor({large, reinterpret_cast<const std::byte*>(filled.data())}, 2,
              {small, reinterpret_cast<std::byte*>(back.data())});
    EXPECT_EQ(back, data);
    uint64_t sum_filled = 0;
    uint64_t sum = 0;
    for (uint16_t number : filled) sum_filled += number;
    for (uint16_t number : data) sum += number;
    EXPECT_EQ(sum_filled, sum);
  }
}

TEST(PadTensorTest, TensorsWithoutElementsAreAllPaddingAndCutToNothing) {
  const int64_t none[] = {2, 0, 2};
  const int64_t some[] = {2, 3, 2};
  std::vector<std::byte> bytes(12, std::byte{9});
  const std::byte pad{4};
  PadTensor({none, nullptr}, absl::MakeConstSpan(&pad, 1),
            {some, bytes.data()});
  EXPECT_EQ(bytes, std::vector<std::byte>(12, std::byte{4}));
  CutTensor({some, bytes.data()}, 1, {none, nullptr});
}

}  // namespace
}  // namespace gpupool::server
