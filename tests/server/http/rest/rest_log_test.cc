#include "server/http/rest/rest_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(RestLogTest, SettingsKeepTheirTypes) {
  const auto request = ReadLogRequest(
      R"({"log_info":true,"log_verbose_level":4294967295,"log_format":"x"})");
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& settings = request->settings();
  EXPECT_EQ(settings.size(), 3u);
  EXPECT_TRUE(settings.at("log_info").bool_param());
  EXPECT_EQ(settings.at("log_verbose_level").uint32_param(), 4294967295u);
  EXPECT_EQ(settings.at("log_format").string_param(), "x");
}

TEST(RestLogTest, ABodyMayBeEmpty) {
  EXPECT_TRUE(ReadLogRequest("")->settings().empty());
  EXPECT_TRUE(ReadLogRequest("{}")->settings().empty());
}

TEST(RestLogTest, OtherTypesAreRefusedByName) {
  for (const char* value : {"null", "0.5", "-1", "[]", "{}", "4294967296"}) {
    const absl::Status status =
        ReadLogRequest(std::string(R"({"log_info":)") + value + "}").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << value;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("log setting 'log_info'"));
  }
  for (const char* body : {"[]", "{", "true"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadLogRequest(body).status())) << body;
  }
}

TEST(RestLogTest, AnswersArePlainValues) {
  inference::LogSettingsResponse response;
  auto& settings = *response.mutable_settings();
  settings["log_verbose_level"].set_uint32_param(1);
  settings["log_info"].set_bool_param(false);
  settings["log_file"].set_string_param("");
  EXPECT_EQ(LogSettingsJson(response),
            R"({"log_file":"","log_info":false,"log_verbose_level":1})");
  EXPECT_EQ(LogSettingsJson({}), "{}");
}

}  // namespace
}  // namespace gpupool::server
