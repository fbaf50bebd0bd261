#include "server/http/rest/rest_repository.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using RepositoryParameters =
    google::protobuf::Map<std::string, inference::ModelRepositoryParameter>;

TEST(RestRepositoryTest, TheIndexListsAllUnlessTheBodySaysReady) {
  EXPECT_FALSE(ReadIndexRequest("")->ready());
  EXPECT_FALSE(ReadIndexRequest("{}")->ready());
  EXPECT_FALSE(ReadIndexRequest(R"({"ready":false})")->ready());
  EXPECT_TRUE(ReadIndexRequest(R"({"ready":true})")->ready());
  for (const char* body : {R"({"ready":1})", "[]", "{"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadIndexRequest(body).status()));
  }
}

TEST(RestRepositoryTest, ParametersKeepTheirTypes) {
  RepositoryParameters parameters;
  ASSERT_TRUE(
      ReadRepositoryParameters(
          R"({"parameters":{"a":true,"b":-7,"c":"x","d":7}})", &parameters)
          .ok());
  EXPECT_TRUE(parameters["a"].bool_param());
  EXPECT_EQ(parameters["b"].int64_param(), -7);
  EXPECT_EQ(parameters["c"].string_param(), "x");
  EXPECT_EQ(parameters["d"].int64_param(), 7);
  EXPECT_EQ(parameters.size(), 4u);
}

TEST(RestRepositoryTest, ABodyMayBeEmpty) {
  RepositoryParameters parameters;
  EXPECT_TRUE(ReadRepositoryParameters("", &parameters).ok());
  EXPECT_TRUE(ReadRepositoryParameters("{}", &parameters).ok());
  EXPECT_TRUE(parameters.empty());
}

TEST(RestRepositoryTest, OtherTypesAreRefusedByName) {
  for (const char* value : {"null", "0.5", "[]", "{}", "9223372036854775808"}) {
    RepositoryParameters parameters;
    const absl::Status status = ReadRepositoryParameters(
        std::string(R"({"parameters":{"key":)") + value + "}}", &parameters);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("parameter 'key'"));
  }
  RepositoryParameters parameters;
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadRepositoryParameters(R"({"parameters":[]})", &parameters)));
}

}  // namespace
}  // namespace gpupool::server
