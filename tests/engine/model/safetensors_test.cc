#include "engine/model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

std::string File(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(header.size() >> 8 * i);
  }
  return length + header + data;
}

std::string ErrorOf(const std::string& file) {
  auto tensors = ParseSafetensors(file);
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensors.status().message());
}

TEST(SafetensorsTest, ReadsWhatItWrites) {
  const std::vector<TensorFacts> facts = {{"z.weight", DType::kFloat32, {2, 3}},
                                          {"a", DType::kInt64, {}},
                                          {"b", DType::kUint8, {3}}};
  const std::string header = SafetensorsHeader(facts);
  EXPECT_EQ(header.size() % 8, 0u);
  std::string data(24 + 8 + 3, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i);
  const std::string file = header + data;
  auto tensors = ParseSafetensors(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  size_t offset = 0;
  for (size_t i = 0; i < 3; ++i) {
    const TensorView& view = (*tensors)[i];
    EXPECT_EQ(view.facts.name, facts[i].name);
    EXPECT_EQ(view.facts.dtype, facts[i].dtype);
    EXPECT_EQ(view.facts.shape, facts[i].shape);
    EXPECT_EQ(view.bytes, data.substr(offset, facts[i].bytes()));
    offset += facts[i].bytes();
  }
}

TEST(SafetensorsTest, ReadsMetadataAndAnEmptyFile) {
  EXPECT_TRUE(ParseSafetensors(File("{\"__metadata__\":{\"a\":\"b\"}}", ""))
                  .value()
                  .empty());
  EXPECT_TRUE(ParseSafetensors(SafetensorsHeader({})).value().empty());
}

TEST(SafetensorsTest, TheHeadersLengthIsChecked) {
  EXPECT_THAT(ErrorOf("1234567"), HasSubstr("shorter than 8"));
  EXPECT_THAT(ErrorOf(std::string(8, '\xff')), HasSubstr("is announced"));
  EXPECT_THAT(ErrorOf(File("{}", "").substr(0, 9)), HasSubstr("9 bytes"));
}

TEST(SafetensorsTest, TheHeaderMustBeAPlainObject) {
  EXPECT_THAT(ErrorOf(File("[]", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf(File("{\"a\":", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf(File("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                           "\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\","
                           "\"shape\":[1],\"data_offsets\":[0,1]}}",
                           "x")),
              HasSubstr("repeats a name"));
  EXPECT_THAT(ErrorOf(File("{\"a\":[[[[[[1]]]]]]}", "")),
              HasSubstr("too deep"));
}

std::string OneTensor(const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
  return "{\"t\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}}";
}

TEST(SafetensorsTest, EveryFieldOfATensorIsChecked) {
  const std::string data(4, 'x');
  EXPECT_TRUE(
      ParseSafetensors(File(OneTensor("\"F32\"", "[1]", "[0,4]"), data)).ok());
  EXPECT_THAT(ErrorOf(File(OneTensor("\"F8\"", "[4]", "[0,4]"), data)),
              HasSubstr("tensor \"t\": dtype"));
  EXPECT_THAT(ErrorOf(File(OneTensor("7", "[4]", "[0,4]"), data)),
              HasSubstr("dtype"));
  EXPECT_THAT(ErrorOf(File(OneTensor("\"U8\"", "[-4]", "[0,4]"), data)),
              HasSubstr("shape holds something else"));
  EXPECT_FALSE(
      ParseSafetensors(File(OneTensor("\"U8\"", "[0]", "[0,0]"), "")).ok());
  EXPECT_FALSE(
      ParseSafetensors(
          File(OneTensor("\"U8\"", "[9223372036854775807,4]", "[0,4]"), data))
          .ok());
  EXPECT_THAT(ErrorOf(File(OneTensor("\"U8\"", "[4]", "[0]"), data)),
              HasSubstr("not a pair"));
  EXPECT_THAT(ErrorOf(File(OneTensor("\"U8\"", "[4]", "[1,5]"), data)),
              HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf(File(OneTensor("\"U8\"", "[4]", "[4,0]"), data)),
              HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf(File(OneTensor("\"F32\"", "[2]", "[0,4]"), data)),
              HasSubstr("do not fit 8 bytes"));
}

TEST(SafetensorsTest, BytesBelongToExactlyOneTensor) {
  const std::string two =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}";
  EXPECT_THAT(ErrorOf(File(two, "xxx")), HasSubstr("overlap"));
  EXPECT_THAT(ErrorOf(File(OneTensor("\"U8\"", "[2]", "[0,2]"), "xxx")),
              HasSubstr("belong to none"));
}

TEST(SafetensorsTest, NoBytesMakeItCrash) {
  const std::string whole = SafetensorsHeader({{"a", DType::kFloat32, {2}},
                                               {"b", DType::kUint8, {5}}}) +
                            std::string(13, 'x');
  const unsigned seed = 99;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 5000; ++i) {
    std::string spoiled = whole.substr(0, random() % (whole.size() + 1));
    for (int flips = 0; flips < 3 && !spoiled.empty(); ++flips) {
      spoiled[random() % spoiled.size()] ^= static_cast<char>(random());
    }
    ParseSafetensors(spoiled).status().IgnoreError();
  }
}

}  // namespace
}  // namespace gpupool::engine
