#include "server/http/rest/rest_infer_request.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using inference::ModelInferRequest;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the message that the request becomes.
ModelInferRequest MessageOf(const RestInferRequest& request) {
  ModelInferRequest message;
  EXPECT_TRUE(message.ParseFromString(WireOf(request)));
  return message;
}

// Returns the message of a body, which is JSON and then binary data.
ModelInferRequest Binary(const std::string& json, const std::string& blobs) {
  const std::string body = json + blobs;
  const auto request = ReadInferRequest(body, json.size());
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? MessageOf(*request) : ModelInferRequest();
}

ModelInferRequest InJson(const std::string& json) {
  const auto request = ReadInferRequest(json, std::nullopt);
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? MessageOf(*request) : ModelInferRequest();
}

void ExpectBad(const absl::StatusOr<RestInferRequest>& request,
               const std::string& words) {
  ASSERT_TRUE(absl::IsInvalidArgument(request.status())) << request.status();
  EXPECT_THAT(std::string(request.status().message()), HasSubstr(words));
}

void ExpectBadJson(const std::string& json, const std::string& words) {
  ExpectBad(ReadInferRequest(json, std::nullopt), words);
}

// Returns a request with one input "x" of UINT8, which has these fields more.
std::string OneInput(const std::string& shape, const std::string& fields) {
  return absl::StrCat(R"({"inputs":[{"name":"x","datatype":"UINT8","shape":)",
                      shape, fields, "}]}");
}

std::string BinarySize(const std::string& size) {
  return absl::StrCat(R"(,"parameters":{"binary_data_size":)", size, "}");
}

TEST(RestInferRequestTest, EveryFieldOfARequestIsThere) {
  const ModelInferRequest message = InJson(
      R"({"id":"42","parameters":{"timeout":5,"priority":18446744073709551615,)"
      R"("a":true,"b":0.5,"c":"text","d":-1},)"
      R"("inputs":[{"name":"x","datatype":"UINT8","shape":[1,2],)"
      R"("parameters":{"k":"v"},"data":[[1,2]]},)"
      R"({"name":"z","datatype":"FP32","shape":[1],"data":[0.5]}],)"
      R"("outputs":[{"name":"y","parameters":{"classification":3}}]})");
  EXPECT_EQ(message.id(), "42");
  const auto& parameters = message.parameters();
  EXPECT_EQ(parameters.at("timeout").int64_param(), 5);
  EXPECT_EQ(parameters.at("priority").uint64_param(),
            std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(parameters.at("a").bool_param());
  EXPECT_EQ(parameters.at("b").double_param(), 0.5);
  EXPECT_EQ(parameters.at("c").string_param(), "text");
  EXPECT_EQ(parameters.at("d").int64_param(), -1);
  ASSERT_EQ(message.inputs_size(), 2);
  EXPECT_EQ(message.inputs(0).name(), "x");
  EXPECT_EQ(message.inputs(0).datatype(), "UINT8");
  EXPECT_THAT(message.inputs(0).shape(), ElementsAre(1, 2));
  EXPECT_EQ(message.inputs(0).parameters().at("k").string_param(), "v");
  EXPECT_FALSE(message.inputs(0).has_contents());
  const float half = 0.5f;
  EXPECT_THAT(
      message.raw_input_contents(),
      ElementsAre("\1\2", std::string(reinterpret_cast<const char*>(&half),
                                      sizeof(half))));
  ASSERT_EQ(message.outputs_size(), 1);
  EXPECT_EQ(message.outputs(0).name(), "y");
  EXPECT_EQ(message.outputs(0).parameters().at("classification").int64_param(),
            3);
}

TEST(RestInferRequestTest, OtherFieldsAreIgnored) {
  const ModelInferRequest message =
      InJson(R"({"model_name":"m","inputs":[{"name":"x","datatype":"UINT8",)"
             R"("shape":[0],"data":[],"more":{"a":[1]}}]})");
  EXPECT_EQ(message.model_name(), "");
  EXPECT_THAT(message.raw_input_contents(), ElementsAre(""));
}

TEST(RestInferRequestTest, FieldsThatAreNullAreNotThere) {
  const ModelInferRequest message =
      InJson(R"({"id":null,"parameters":null,"outputs":null,"inputs":[)"
             R"({"name":"x","datatype":"UINT8","shape":[0],"parameters":null,)"
             R"("data":[]}]})");
  EXPECT_EQ(message.id(), "");
  EXPECT_EQ(message.outputs_size(), 0);
  ExpectBadJson(R"({"inputs":null})", "no 'inputs'");
}

TEST(RestInferRequestTest, AnyChangeOfABodyIsReadOrRefused) {
  const std::string json =
      R"({"id":"7","inputs":[{"name":"x","datatype":"INT8","shape":[2],)"
      R"("parameters":{"binary_data_size":2}},{"data":[[1,-2],[0.5,"NaN"]],)"
      R"("name":"y","shape":[2,2],"datatype":"FP32"}],"outputs":[{"name":"z"}]})";
  const std::string body = json + "ab";
  for (size_t at = 0; at < body.size(); ++at) {
    for (const char changed :
         {'\0', '"', '0', '9', '-', '[', ']', '}', '\xff'}) {
      std::string other = body;
      other[at] = changed;
      for (const size_t length : {json.size(), at, at + 1}) {
        const auto request = ReadInferRequest(other, length);
        if (request.ok()) {
          MessageOf(*request);
        } else {
          EXPECT_TRUE(absl::IsInvalidArgument(request.status()));
        }
      }
    }
  }
}

TEST(RestInferRequestTest, DataMayComeBeforeNameAndDatatype) {
  const ModelInferRequest message = InJson(
      R"({"inputs":[{"data":[7],"shape":[1],"datatype":"UINT8","name":"x"}]})");
  EXPECT_EQ(message.inputs(0).name(), "x");
  EXPECT_THAT(message.raw_input_contents(), ElementsAre("\7"));
}

TEST(RestInferRequestTest, FaultsNameTheFieldAndTheTensor) {
  ExpectBadJson("{}", "no 'inputs'");
  ExpectBadJson(R"({"inputs":{}})", "no 'inputs'");
  ExpectBadJson(R"({"inputs":[1]})", "inputs[0] is no object");
  ExpectBadJson(R"({"inputs":[{}]})", "inputs[0] has no 'name'");
  ExpectBadJson(R"({"inputs":[{"name":1}]})", "inputs[0] has no 'name'");
  ExpectBadJson(R"({"inputs":[{"name":"x"}]})", "input 'x' has no 'datatype'");
  ExpectBadJson(R"({"inputs":[{"name":"x","datatype":"FP32"}]})",
                "input 'x' has no 'shape'");
  ExpectBadJson(OneInput("[1.5]", ""), "input 'x' has a 'shape'");
  ExpectBadJson(OneInput("[9223372036854775808]", ""), "a size that is no");
  ExpectBadJson(OneInput("[1]", ""), "input 'x' has no elements");
  ExpectBadJson(OneInput("[1]", R"(,"parameters":[])"),
                "input 'x' has 'parameters'");
  ExpectBadJson(OneInput("[1]", R"(,"parameters":{"k":null})"),
                "parameter 'k' takes");
  ExpectBadJson(R"({"id":7,"inputs":[]})", "the request has no 'id'");
  ExpectBadJson(R"({"inputs":[],"outputs":{}})", "'outputs' that are no list");
  ExpectBadJson(R"({"inputs":[],"outputs":[7]})", "outputs[0] is no object");
  ExpectBadJson(R"({"inputs":[],"outputs":[{}]})", "outputs[0] has no 'name'");
  ExpectBadJson(R"({"inputs":[],"parameters":[]})",
                "the request has 'parameters'");
}

TEST(RestInferRequestTest, ElementsAreChecked) {
  ExpectBadJson(OneInput("[2]", R"(,"data":[1,256])"),
                "input 'x': element 1 is 256; UINT8 takes integers from 0");
  ExpectBadJson(OneInput("[3]", R"(,"data":[1,2])"), "the shape [3] takes 3");
}

TEST(RestInferRequestTest, AnInputInSharedMemoryHasNoContents) {
  const ModelInferRequest message =
      InJson(R"({"inputs":[{"name":"x","datatype":"UINT8","shape":[1],)"
             R"("parameters":{"shared_memory_region":"r",)"
             R"("shared_memory_byte_size":1}},)"
             R"({"name":"y","datatype":"UINT8","shape":[1],"data":[65]}]})");
  const auto& parameters = message.inputs(0).parameters();
  EXPECT_EQ(parameters.at("shared_memory_region").string_param(), "r");
  EXPECT_EQ(parameters.at("shared_memory_byte_size").int64_param(), 1);
  EXPECT_THAT(message.raw_input_contents(), ElementsAre("A"));
  constexpr char kBoth[] =
      "has elements and the parameter shared_memory_region";
  ExpectBadJson(OneInput("[1]", R"(,"data":[1],"parameters":)"
                                R"({"shared_memory_region":"r"})"),
                kBoth);
  const std::string sized =
      OneInput("[1]", R"(,"parameters":{"shared_memory_region":"r",)"
                      R"("binary_data_size":1})");
  ExpectBad(ReadInferRequest(sized + "a", sized.size()), kBoth);
}

TEST(RestInferRequestTest, OutputsAreBinaryByTheirOwnParameterOrTheRequests) {
  const auto own =
      ReadInferRequest(R"({"inputs":[],"outputs":[{"name":"y","parameters":)"
                       R"({"binary_data":true}},{"name":"z"}]})",
                       std::nullopt);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_TRUE(own->forms.IsBinary("y"));
  EXPECT_FALSE(own->forms.IsBinary("z"));
  EXPECT_TRUE(own->message.outputs(0).parameters().empty());
  const auto all = ReadInferRequest(
      R"({"inputs":[],"parameters":{"binary_data_output":true},)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":false}}]})",
      std::nullopt);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(all->forms.IsBinary("y"));
  EXPECT_TRUE(all->forms.IsBinary("z"));
  EXPECT_TRUE(all->message.parameters().empty());
  ExpectBadJson(R"({"inputs":[],"parameters":{"binary_data_output":1}})",
                "parameter 'binary_data_output' takes true or false");
  ExpectBadJson(
      R"({"inputs":[],"outputs":[{"name":"y","parameters":{"binary_data":1}}]})",
      "parameter 'binary_data' takes true or false");
}

TEST(RestInferRequestTest, BinaryDataAreInTheOrderOfTheInputs) {
  const ModelInferRequest message =
      Binary(R"({"inputs":[{"name":"a","datatype":"FP16","shape":[1],)"
             R"("parameters":{"binary_data_size":2,"k":1}},)"
             R"({"name":"b","datatype":"UINT8","shape":[1],"data":[7]},)"
             R"({"name":"c","datatype":"BF16","shape":[1],)"
             R"("parameters":{"binary_data_size":2}},)"
             R"({"name":"d","datatype":"UINT8","shape":[0],)"
             R"("parameters":{"binary_data_size":0}}]})",
             "AaCc");
  EXPECT_THAT(message.raw_input_contents(), ElementsAre("Aa", "\7", "Cc", ""));
  // The size is of this form of requests only.
  EXPECT_EQ(message.inputs(0).parameters().size(), 1u);
  EXPECT_TRUE(message.inputs(2).parameters().empty());
}

TEST(RestInferRequestTest, BinaryDataAreNotCopiedBeforeTheMessage) {
  const std::string json = OneInput("[4]", BinarySize("4"));
  const std::string body = json + "abcd";
  const auto request = ReadInferRequest(body, json.size());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->contents[0].sent.data(), body.data() + json.size());
}

TEST(RestInferRequestTest, LargeContentsKeepTheirLengths) {
  for (size_t size : {127u, 128u, 16383u, 16384u, 3'000'000u}) {
    const std::string blob(size, 'x');
    const ModelInferRequest message = Binary(
        OneInput(absl::StrCat("[", size, "]"), BinarySize(absl::StrCat(size))),
        blob);
    ASSERT_EQ(message.raw_input_contents_size(), 1);
    EXPECT_EQ(message.raw_input_contents(0), blob);
  }
}

TEST(RestInferRequestTest, BinaryDataNeedTheHeader) {
  ExpectBadJson(OneInput("[1]", BinarySize("1")),
                "no header Inference-Header-Content-Length");
  // Without the header, what follows the JSON is no JSON.
  ExpectBadJson(OneInput("[1]", R"(,"data":[1])") + "x", "no JSON at byte");
}

TEST(RestInferRequestTest, SizesOfBinaryDataAreThoseOfTheBody) {
  const auto read = [](const std::string& size, const std::string& blob) {
    const std::string json = OneInput("[2]", BinarySize(size));
    return ReadInferRequest(json + blob, json.size()).status();
  };
  EXPECT_TRUE(read("2", "ab").ok());
  const std::pair<std::pair<const char*, const char*>, const char*> rows[] = {
      {{"3", "ab"}, "binary_data_size of 3, but the body has 2 bytes"},
      {{"1", "ab"}, "has 1 bytes of binary data more"},
      {{"-1", "ab"}, "no integer from 0"},
      {{"1.5", "ab"}, "no integer from 0"},
      {{"\"2\"", "ab"}, "no integer from 0"},
      {{"true", "ab"}, "no integer from 0"},
      {{"18446744073709551615", "ab"},
       "binary_data_size of 18446744073709551615"},
      {{"18446744073709551616", "ab"}, "no integer from 0"}};
  for (const auto& [given, words] : rows) {
    const absl::Status status = read(given.first, given.second);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << given.first;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
}

TEST(RestInferRequestTest, TheSumOfSizesIsBounded) {
  // Each fits alone, and both together do not.
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[2],)"
      R"("parameters":{"binary_data_size":2}},)"
      R"({"name":"b","datatype":"UINT8","shape":[2],)"
      R"("parameters":{"binary_data_size":2}}]})";
  ExpectBad(ReadInferRequest(json + "abc", json.size()),
            "input 'b' has a binary_data_size of 2, but the body has 1 bytes");
}

TEST(RestInferRequestTest, AnInputHasItsElementsOnce) {
  const std::string json =
      OneInput("[1]", R"(,"data":[1],"parameters":{"binary_data_size":1})");
  ExpectBad(ReadInferRequest(json + "a", json.size()),
            "input 'x' has both 'data' and binary_data_size");
}

TEST(RestInferRequestTest, TheJsonEndsWithinTheBody) {
  const std::string json = OneInput("[1]", R"(,"data":[1])");
  EXPECT_TRUE(ReadInferRequest(json, json.size()).ok());
  ExpectBad(ReadInferRequest(json, json.size() + 1),
            absl::StrCat("Inference-Header-Content-Length is ", json.size() + 1,
                         ", but the body has ", json.size(), " bytes"));
  ExpectBad(ReadInferRequest(json, std::numeric_limits<uint64_t>::max()),
            "but the body has");
  ExpectBad(ReadInferRequest(json, json.size() - 1), "no JSON at byte");
}

TEST(RestInferRequestTest, TheHeaderIsANumber) {
  EXPECT_EQ(*ReadJsonLength("0"), 0u);
  EXPECT_EQ(*ReadJsonLength("18446744073709551615"),
            std::numeric_limits<uint64_t>::max());
  for (const char* text :
       {"", "-1", "+1", " 1", "1 ", "0x1", "1.0", "18446744073709551616"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadJsonLength(text).status())) << text;
  }
  EXPECT_THAT(
      std::string(ReadJsonLength("many").status().message()),
      AllOf(HasSubstr("Inference-Header-Content-Length"), HasSubstr("'many'")));
}

TEST(RestInferRequestTest, LargeJsonIsRefusedAndLargeBinaryDataAreNot) {
  const std::string large(kMostJsonBytes + 1, ' ');
  EXPECT_TRUE(absl::IsResourceExhausted(
      ReadInferRequest(large, std::nullopt).status()));
  const std::string json = OneInput(absl::StrCat("[", large.size(), "]"),
                                    BinarySize(absl::StrCat(large.size())));
  EXPECT_TRUE(ReadInferRequest(json + large, json.size()).ok());
}

class RawRequestTest : public ::testing::Test {
 protected:
  // Reads a body for a model with one input of this shape.
  absl::StatusOr<RestInferRequest> Read(const std::vector<int64_t>& shape,
                                        const std::string& body,
                                        const std::string& datatype = "FP16") {
    body_ = body;
    inference::ModelMetadataResponse model;
    model.set_name("m");
    auto* input = model.add_inputs();
    input->set_name("x");
    input->set_datatype(datatype);
    *input->mutable_shape() = {shape.begin(), shape.end()};
    return ReadRawRequest(model, body_);
  }

  std::string body_;
};

TEST_F(RawRequestTest, TheBodyIsTheOnlyInput) {
  const auto request = Read({2, 2}, "abcdefgh");
  ASSERT_TRUE(request.ok()) << request.status();
  const ModelInferRequest message = MessageOf(*request);
  EXPECT_EQ(message.inputs(0).name(), "x");
  EXPECT_EQ(message.inputs(0).datatype(), "FP16");
  EXPECT_THAT(message.inputs(0).shape(), ElementsAre(2, 2));
  EXPECT_THAT(message.raw_input_contents(), ElementsAre("abcdefgh"));
  EXPECT_TRUE(request->forms.IsBinary("any"));
}

TEST_F(RawRequestTest, OpenSizesFollowFromTheBytes) {
  EXPECT_THAT(Read({-1, 2}, "abcdefgh")->message.inputs(0).shape(),
              ElementsAre(2, 2));
  EXPECT_THAT(Read({-1, -1}, "abcdefgh")->message.inputs(0).shape(),
              ElementsAre(1, 4));
  EXPECT_THAT(Read({-1, 2}, "")->message.inputs(0).shape(), ElementsAre(0, 2));
}

TEST_F(RawRequestTest, OtherSizesAreRefused) {
  ExpectBad(Read({2}, "abcdef"), "a body of 6 bytes is not input 'x'");
  ExpectBad(Read({-1, 2}, "abcdef"), "a body of 6 bytes");
  ExpectBad(Read({-1, -1, -1}, "ab"), "3 open sizes");
  ExpectBad(Read({-1, 0}, ""), "send JSON");
  ExpectBad(Read({-2}, "ab"), "send JSON");
  ExpectBad(Read({int64_t{1} << 62, 4}, "ab"), "send JSON");
  ExpectBad(Read({-1}, "ab", "BYTES"), "datatype BYTES");
}

TEST_F(RawRequestTest, AModelWithOtherInputsNeedsJson) {
  inference::ModelMetadataResponse model;
  model.set_name("m");
  ExpectBad(ReadRawRequest(model, "ab"), "model 'm' takes 0 inputs");
  model.add_inputs();
  model.add_inputs();
  ExpectBad(ReadRawRequest(model, "ab"), "model 'm' takes 2 inputs");
}

}  // namespace
}  // namespace gpupool::server
