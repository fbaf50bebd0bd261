#include "server/http/rest/rest_infer_response.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using inference::ModelInferResponse;
using ::testing::AllOf;
using ::testing::HasSubstr;

ModelInferResponse NewResponse() {
  ModelInferResponse response;
  response.set_model_name("m");
  response.set_model_version("3");
  return response;
}

// Adds an output with one dimension.
template <typename T>
void AddValues(const std::string& name, const std::string& datatype,
               const std::vector<T>& values, ModelInferResponse* response) {
  auto* output = response->add_outputs();
  output->set_name(name);
  output->set_datatype(datatype);
  output->add_shape(static_cast<int64_t>(values.size()));
  response->add_raw_output_contents(values.data(), values.size() * sizeof(T));
}

// Returns the text of "data" of an output with these values.
template <typename T>
std::string DataOf(const std::string& datatype, const std::vector<T>& values) {
  ModelInferResponse response = NewResponse();
  AddValues("y", datatype, values, &response);
  const auto answer = WriteInferResponse(response, OutputForms());
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok()) return {};
  EXPECT_FALSE(answer->json_bytes.has_value());
  const size_t at = answer->body.find("\"data\":") + 7;
  return answer->body.substr(at, answer->body.size() - at - 3);
}

TEST(RestInferResponseTest, AnOutputInSharedMemoryHasNoElements) {
  ModelInferResponse response = NewResponse();
  AddValues<int32_t>("y", "INT32", {1, 2}, &response);
  response.mutable_raw_output_contents(0)->clear();
  (*response.mutable_outputs(0)->mutable_parameters())["shared_memory_region"]
      .set_string_param("r");
  OutputForms forms;
  for (const bool binary : {false, true}) {
    forms.SetBinary(binary);
    const auto answer = WriteInferResponse(response, forms);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer->json_bytes.has_value());
    EXPECT_EQ(answer->body,
              R"({"model_name":"m","model_version":"3","outputs":[)"
              R"({"name":"y","datatype":"INT32","shape":[2],)"
              R"("parameters":{"shared_memory_region":"r"}}]})");
  }
}

TEST(RestInferResponseTest, EveryFieldIsThere) {
  ModelInferResponse response = NewResponse();
  response.set_id("42");
  (*response.mutable_parameters())["a"].set_bool_param(true);
  (*response.mutable_parameters())["b"].set_int64_param(-7);
  (*response.mutable_parameters())["c"].set_string_param("\"");
  AddValues<int32_t>("y", "INT32", {1, -2}, &response);
  response.mutable_outputs(0)->add_shape(1);
  const auto answer = WriteInferResponse(response, OutputForms());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body,
            R"({"model_name":"m","model_version":"3","id":"42",)"
            R"("parameters":{"a":true,"b":-7,"c":"\""},"outputs":[)"
            R"({"name":"y","datatype":"INT32","shape":[2,1],"data":[1,-2]}]})");
}

TEST(RestInferResponseTest, EmptyFieldsAreLeftOut) {
  const auto answer = WriteInferResponse(NewResponse(), OutputForms());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body,
            R"({"model_name":"m","model_version":"3","outputs":[]})");
}

TEST(RestInferResponseTest, IntegersAndBooleansAreExact) {
  EXPECT_EQ(DataOf<uint8_t>("BOOL", {0, 1}), "[false,true]");
  EXPECT_EQ(DataOf<int8_t>("INT8", {-128, 127}), "[-128,127]");
  EXPECT_EQ(DataOf<uint8_t>("UINT8", {0, 255}), "[0,255]");
  EXPECT_EQ(DataOf<int16_t>("INT16", {-32768}), "[-32768]");
  EXPECT_EQ(DataOf<uint16_t>("UINT16", {65535}), "[65535]");
  EXPECT_EQ(DataOf<uint32_t>("UINT32", {4294967295}), "[4294967295]");
  EXPECT_EQ(DataOf<int64_t>("INT64", {std::numeric_limits<int64_t>::min()}),
            "[-9223372036854775808]");
  EXPECT_EQ(DataOf<uint64_t>("UINT64", {std::numeric_limits<uint64_t>::max()}),
            "[18446744073709551615]");
  EXPECT_EQ(DataOf<int32_t>("INT32", {}), "[]");
}

TEST(RestInferResponseTest, FloatsHaveTheirShortestText) {
  EXPECT_EQ(DataOf<float>("FP32", {0.1f, 1.0f, -2.5f, 1e20f}),
            "[0.1,1,-2.5,1e+20]");
  EXPECT_EQ(DataOf<double>("FP64", {0.1, 1.0 / 3}), "[0.1,0.3333333333333333]");
}

TEST(RestInferResponseTest, NanAndInfinityAreTexts) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::string texts = R"(["NaN","Infinity","-Infinity"])";
  EXPECT_EQ(DataOf<float>("FP32", {kNan, kInfinity, -kInfinity}), texts);
  EXPECT_EQ(DataOf<double>("FP64", {kNan, kInfinity, -kInfinity}), texts);
}

TEST(RestInferResponseTest, BinaryDataFollowTheJson) {
  ModelInferResponse response = NewResponse();
  AddValues<uint16_t>("a", "FP16", {0x6161, 0x6161}, &response);
  AddValues<uint8_t>("b", "UINT8", {7}, &response);
  AddValues<uint8_t>("c", "UINT8", {0x63}, &response);
  (*response.mutable_outputs(2)->mutable_parameters())["k"].set_int64_param(1);
  OutputForms forms;
  forms.SetBinary(true);
  forms.SetBinary("b", false);
  const auto answer = WriteInferResponse(response, forms);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->json_bytes.has_value());
  EXPECT_EQ(answer->body.substr(*answer->json_bytes), "aaaac");
  EXPECT_EQ(answer->body.substr(0, *answer->json_bytes),
            R"({"model_name":"m","model_version":"3","outputs":[)"
            R"({"name":"a","datatype":"FP16","shape":[2],)"
            R"("parameters":{"binary_data_size":4}},)"
            R"({"name":"b","datatype":"UINT8","shape":[1],"data":[7]},)"
            R"({"name":"c","datatype":"UINT8","shape":[1],)"
            R"("parameters":{"binary_data_size":1,"k":1}}]})");
}

// Adds an output of BYTES with one dimension and these contents.
void AddTexts(int64_t elements, const std::string& raw,
              ModelInferResponse* response) {
  auto* output = response->add_outputs();
  output->set_name("y");
  output->set_datatype("BYTES");
  output->add_shape(elements);
  response->add_raw_output_contents(raw);
}

TEST(RestInferResponseTest, TextsAreStrings) {
  ModelInferResponse response = NewResponse();
  AddTexts(3, std::string("\3\0\0\0a\"b\0\0\0\0\1\0\0\0\xff", 16), &response);
  const auto answer = WriteInferResponse(response, OutputForms());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->body,
              HasSubstr("\"data\":[\"a\\\"b\",\"\",\"\xef\xbf\xbd\"]"));
  OutputForms forms;
  forms.SetBinary(true);
  const auto binary = WriteInferResponse(response, forms);
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_EQ(binary->body.substr(*binary->json_bytes),
            response.raw_output_contents(0));
}

TEST(RestInferResponseTest, TextsThatTheShapeDoesNotHaveAreAnError) {
  for (const std::string& raw :
       {std::string(), std::string("\1\0\0\0a\1\0\0\0b", 10),
        std::string("\2\0\0\0a", 5), std::string("\0\0\0", 3)}) {
    ModelInferResponse response = NewResponse();
    AddTexts(1, raw, &response);
    EXPECT_TRUE(
        absl::IsInternal(WriteInferResponse(response, OutputForms()).status()))
        << raw.size();
  }
}

TEST(RestInferResponseTest, SixteenBitFloatsNeedBinaryData) {
  for (const char* datatype : {"FP16", "BF16"}) {
    ModelInferResponse response = NewResponse();
    AddValues<uint16_t>("y", datatype, {1}, &response);
    const absl::Status status =
        WriteInferResponse(response, OutputForms()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("output 'y'"), HasSubstr(datatype),
                      HasSubstr("binary_data_output")));
  }
}

TEST(RestInferResponseTest, ContentsThatTheShapeDoesNotHaveAreAnError) {
  ModelInferResponse response = NewResponse();
  AddValues<uint8_t>("y", "UINT16", {1, 2, 3}, &response);
  EXPECT_TRUE(
      absl::IsInternal(WriteInferResponse(response, OutputForms()).status()));
  response.mutable_outputs(0)->set_shape(0, -1);
  EXPECT_TRUE(
      absl::IsInternal(WriteInferResponse(response, OutputForms()).status()));
  response.clear_raw_output_contents();
  EXPECT_TRUE(
      absl::IsInternal(WriteInferResponse(response, OutputForms()).status()));
}

}  // namespace
}  // namespace gpupool::server
