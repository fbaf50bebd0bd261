#include "client/files/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TensorFileTest, NpyKeepsTypeShapeAndBytes) {
  for (const char* type : {"FP32", "INT64", "BOOL", "FP16", "UINT8", "UINT16",
                           "INT16", "UINT32", "UINT64"}) {
    SCOPED_TRACE(type);
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{}, {3}, {2, 3}, {0, 4}, {3, 0}}) {
      uint64_t count = 1;
      for (int64_t size : shape) count *= static_cast<uint64_t>(size);
      const Tensor tensor{type, shape,
                          std::string(count * ElementBytes(type), 'q')};
      const std::string file = NpyText(tensor);
      EXPECT_EQ((file.size() - tensor.bytes.size()) % 64, 0u);
      const auto read = ParseNpy(file);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->data_type, type);
      EXPECT_EQ(read->shape, shape);
      EXPECT_EQ(read->bytes, tensor.bytes);
    }
  }
}

TEST(TensorFileTest, TypesHaveTheSizesOfTheServer) {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, floating, onnx, \
                      safetensors, protocol)                       \
  EXPECT_EQ(ElementBytes(protocol), uint64_t{bytes}) << protocol;
#include "engine/base/dtype_table.inc"
#define GPUPOOL_WIDENED_TYPE(type, message, number, ...) \
  EXPECT_EQ(ElementBytes(#message), sizeof(number)) << #message;
#include "engine/base/widened_types.inc"
}

TEST(TensorFileTest, WhatIsNoNpyIsRefused) {
  const std::string file = NpyText({"FP32", {2}, std::string(8, 'x')});
  EXPECT_FALSE(ParseNpy("").ok());
  EXPECT_FALSE(ParseNpy(file.substr(0, 20)).ok());
  EXPECT_THAT(ParseNpy(file.substr(0, file.size() - 1)).status().message(),
              HasSubstr("holds 7 bytes"));
  std::string other = file;
  other.replace(other.find("False"), 5, "True ");
  EXPECT_THAT(ParseNpy(other).status().message(), HasSubstr("Fortran"));
  other = file;
  other.replace(other.find("<f4"), 3, "<c8");
  EXPECT_THAT(ParseNpy(other).status().message(), HasSubstr("'<c8'"));
}

TEST(TensorFileTest, ATypeThatCannotBeSentIsNamedWithThoseThatCan) {
  const std::string file = NpyText({"UINT8", {1}, "x"});
  const auto error = [&](const char* type) {
    std::string other = file;
    other.replace(other.find("|u1"), 3, type);
    return std::string(ParseNpy(other).status().message());
  };
  EXPECT_THAT(error(">u2"),
              StartsWith("arrays of uint16 in big-endian order ('>u2') cannot "
                         "be sent; convert it to float16, "));
  EXPECT_THAT(error(">f4"), HasSubstr("float32 in big-endian order ('>f4')"));
  EXPECT_THAT(error("<c8"), HasSubstr("complex64 ('<c8')"));
  EXPECT_THAT(error("|O8"), HasSubstr("arrays of '|O8'"));
}

TEST(TensorFileTest, JsonBecomesTheAskedType) {
  const auto ids = ParseJsonTensor("[[1, 2, 3], [4, 5, -6]]", "INT64");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(ids->shape, ElementsAre(2, 3));
  int64_t last = 0;
  std::memcpy(&last, ids->bytes.data() + 40, 8);
  EXPECT_EQ(last, -6);
  EXPECT_EQ(JsonText(*ids), "[[1,2,3],[4,5,-6]]");
  EXPECT_EQ(JsonText(*ParseJsonTensor("[true, false]", "BOOL")),
            "[true,false]");
  EXPECT_EQ(JsonText(*ParseJsonTensor("0.5", "FP32")), "0.5");
}

TEST(TensorFileTest, IntegersHaveTheRangeOfTheirType) {
  struct Case {
    const char* type;
    const char* in_range;
    std::vector<const char*> out_of_range;
  };
  const Case cases[] = {
      {"UINT16", "[0,65535]", {"[65536]", "[-1]"}},
      {"INT16", "[-32768,32767]", {"[32768]", "[-32769]"}},
      {"UINT32", "[0,4294967295]", {"[4294967296]", "[-1]"}},
      {"UINT64",
       "[0,9223372036854775808,18446744073709551615]",
       {"[-1]", "[18446744073709551616]"}},
      {"INT64",
       "[-9223372036854775808,9223372036854775807]",
       {"[9223372036854775808]"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.type);
    const auto read = ParseJsonTensor(one.in_range, one.type);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(JsonText(*read), one.in_range);
    for (const char* text : one.out_of_range) {
      EXPECT_FALSE(ParseJsonTensor(text, one.type).ok()) << text;
    }
  }
}

TEST(TensorFileTest, NumbersAreInRowMajorOrder) {
  EXPECT_THAT(Numbers(*ParseJsonTensor("[[1, 2], [3, -4]]", "INT8")),
              ElementsAre(1, 2, 3, -4));
  EXPECT_THAT(Numbers(*ParseJsonTensor("[true, false]", "BOOL")),
              ElementsAre(1, 0));
  EXPECT_THAT(Numbers(*ParseJsonTensor("0.5", "FP32")), ElementsAre(0.5));
}

TEST(TensorFileTest, JsonThatIsNoTensorIsRefused) {
  EXPECT_FALSE(ParseJsonTensor("[1, [2]]", "INT64").ok());
  EXPECT_FALSE(ParseJsonTensor("[[1], [2, 3]]", "INT64").ok());
  EXPECT_FALSE(ParseJsonTensor("[1", "INT64").ok());
  EXPECT_FALSE(ParseJsonTensor("[\"a\"]", "FP32").ok());
  EXPECT_THAT(ParseJsonTensor("[300]", "UINT8").status().message(),
              HasSubstr("300 cannot be sent as UINT8"));
  EXPECT_FALSE(ParseJsonTensor("[0.5]", "INT32").ok());
}

TEST(TensorFileTest, HalvesArePrintedAsNumbers) {
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff};
  const Tensor tensor{
      "FP16", {4}, std::string(reinterpret_cast<const char*>(halves), 8)};
  EXPECT_THAT(JsonText(tensor), HasSubstr("[1.0,-2.0,"));
  EXPECT_THAT(JsonText(tensor), HasSubstr("65504.0]"));
  const uint16_t brain = 0x3f80;
  EXPECT_EQ(
      JsonText(
          {"BF16", {}, std::string(reinterpret_cast<const char*>(&brain), 2)}),
      "1.0");
}

TEST(TensorFileTest, StringsAreTextsWithTheirLengths) {
  const auto tensor = ParseJsonTensor("[[\"ab\"], [\"\"]]", "BYTES");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(tensor->bytes, std::string("\2\0\0\0ab\0\0\0\0", 10));
  EXPECT_EQ(JsonText(*tensor), "[[\"ab\"],[\"\"]]");
  EXPECT_FALSE(ParseJsonTensor("[1]", "BYTES").ok());
  EXPECT_FALSE(ParseJsonTensor("[\"a\"]", "FP32").ok());
  // An answer that is cut off.
  EXPECT_EQ(JsonText({"BYTES", {2}, std::string("\5\0\0\0ab", 6)}),
            "[\"ab\",\"\"]");
}

}  // namespace
}  // namespace gpupool::client
