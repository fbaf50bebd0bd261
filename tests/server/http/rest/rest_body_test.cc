#include "server/http/rest/rest_body.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

void ExpectBadBody(const std::string& text, const std::string& words) {
  const auto body = ReadRestBody(text);
  ASSERT_TRUE(absl::IsInvalidArgument(body.status())) << text.substr(0, 80);
  EXPECT_THAT(std::string(body.status().message()), HasSubstr(words));
}

// Returns `count` times the text.
std::string Times(size_t count, const std::string& text) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(RestBodyTest, DataOfInputsAreKeptApart) {
  const auto body = ReadRestBody(
      R"({"id":"7","inputs":[{"name":"a","data":[1,2]},)"
      R"({"data":[[true],[-1]],"name":"b"}],"outputs":[{"name":"y"}]})");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->json.dump(),
            R"({"id":"7","inputs":[{"data":0,"name":"a"},)"
            R"({"data":1,"name":"b"}],"outputs":[{"name":"y"}]})");
  ASSERT_EQ(body->data.size(), 2u);
  EXPECT_EQ(body->data[0].size(), 2u);
  EXPECT_EQ(body->data[1].size(), 2u);
}

TEST(RestBodyTest, OtherKeysNamedDataAreValues) {
  const auto body = ReadRestBody(
      R"({"data":[1],"inputs":[{"parameters":{"data":[2]},"x":[3]}],)"
      R"("outputs":[{"data":[4]}]})");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_TRUE(body->data.empty());
  EXPECT_EQ(body->json["inputs"][0]["parameters"]["data"][0], 2);
  EXPECT_EQ(body->json["outputs"][0]["data"][0], 4);
}

TEST(RestBodyTest, EveryKindOfElementIsTaken) {
  const auto body = ReadRestBody(
      R"({"inputs":[{"name":"x","data":[1,-2,0.5,true,"NaN",1e3]}]})");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->data[0].size(), 6u);
}

TEST(RestBodyTest, FaultsOfTheTextNameTheirPlace) {
  ExpectBadBody("", "at byte ");
  ExpectBadBody(R"({"id":)", "at byte ");
  ExpectBadBody(R"({"id":nope})", "at byte ");
  ExpectBadBody(R"({"id":"1"} x)", "at byte 1");
  ExpectBadBody(R"({"id":1e999})", "1e999");
  ExpectBadBody("{\"id\":\"\xff\"}", "at byte ");
  ExpectBadBody("[1]", "takes an object");
  ExpectBadBody("null", "takes an object");
}

TEST(RestBodyTest, AKeyStandsOnceInAnObject) {
  ExpectBadBody(R"({"id":"1","id":"2"})", "'id' twice");
  ExpectBadBody(R"({"inputs":[{"data":[1],"data":[2]}]})", "'data' twice");
}

TEST(RestBodyTest, DataIsAList) {
  for (const char* value : {"1", "\"x\"", "null", "{}", "true", "0.5", "-1"}) {
    ExpectBadBody(
        absl::StrCat(R"({"inputs":[{"name":"x","data":)", value, "}]}"),
        "'data' of input 'x' takes a list");
  }
  ExpectBadBody(R"({"inputs":[{"name":"x","data":[{}]}]})",
                "'data' of input 'x' takes a list");
}

TEST(RestBodyTest, TheNumberOfValuesHasALimit) {
  // The body and the list are values, too.
  const std::string most = Times(kMostRestValues - 3, "1,");
  EXPECT_TRUE(ReadRestBody("{\"x\":[" + most + "1]}").ok());
  ExpectBadBody("{\"x\":[" + most + "1,1]}", "more than 10000 values");
  // Elements of tensors do not count.
  EXPECT_TRUE(
      ReadRestBody(R"({"inputs":[{"data":[)" + most + most + "1]}]}").ok());
}

TEST(RestBodyTest, TheDepthHasALimit) {
  const size_t most = kDeepestRestValue - 1;  // inside the body
  EXPECT_TRUE(
      ReadRestBody("{\"x\":" + Times(most, "[") + Times(most, "]") + "}").ok());
  ExpectBadBody("{\"x\":" + Times(most + 1, "["), "more than 16 deep");
  ExpectBadBody(Times(100'000, "["), "more than 16 deep");
  ExpectBadBody(R"({"inputs":[{"name":"x","data":)" + Times(100'000, "["),
                "more than 32 deep");
}

}  // namespace
}  // namespace gpupool::server
