#include "server/api/inference/log_settings.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/api_inference/inference_server.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class LogSettingsTest : public ::testing::Test {
 protected:
  void Turn(const std::string& name, bool on) {
    (*request_.mutable_settings())[name].set_bool_param(on);
  }
  void Text(const std::string& name, const std::string& text) {
    (*request_.mutable_settings())[name].set_string_param(text);
  }
  void Verbose(uint32_t level) {
    (*request_.mutable_settings())["log_verbose_level"].set_uint32_param(level);
  }
  // Sends the settings, and forgets them.
  absl::Status Answer() {
    response_.Clear();
    const absl::Status status = AnswerLogSettings(request_, &log_, &response_);
    request_.Clear();
    return status;
  }
  // Expects an error that changes nothing.
  void Refused(absl::StatusCode code, const std::string& text) {
    const LogLevel before = log_.Level();
    const absl::Status status = Answer();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(log_.Level(), before);
    EXPECT_TRUE(response_.settings().empty());
  }

  FakeLog log_;
  inference::LogSettingsRequest request_;
  inference::LogSettingsResponse response_;
};

TEST_F(LogSettingsTest, ARequestWithoutSettingsReads) {
  ASSERT_TRUE(Answer().ok());
  const auto& settings = response_.settings();
  ASSERT_EQ(settings.size(), 6u);
  EXPECT_EQ(settings.at("log_verbose_level").uint32_param(), 0u);
  EXPECT_TRUE(settings.at("log_info").bool_param());
  EXPECT_TRUE(settings.at("log_warning").bool_param());
  EXPECT_TRUE(settings.at("log_error").bool_param());
  EXPECT_TRUE(settings.at("log_file").has_string_param());
  EXPECT_EQ(settings.at("log_file").string_param(), "");
  EXPECT_EQ(settings.at("log_format").string_param(), "ISO8601");
}

TEST_F(LogSettingsTest, EveryLevelShowsWhatItIncludes) {
  for (int level = 0; level <= static_cast<int>(LogLevel::kCritical); ++level) {
    log_.level = static_cast<LogLevel>(level);
    ASSERT_TRUE(Answer().ok());
    const auto& settings = response_.settings();
    EXPECT_EQ(settings.at("log_verbose_level").uint32_param(),
              level <= 0 ? 1u : 0u);
    EXPECT_EQ(settings.at("log_info").bool_param(), level <= 1);
    EXPECT_EQ(settings.at("log_warning").bool_param(), level <= 2);
    EXPECT_EQ(settings.at("log_error").bool_param(), level <= 3);
  }
}

TEST_F(LogSettingsTest, TurningOffTurnsOffWhatIsBelow) {
  log_.level = LogLevel::kDebug;
  Turn("log_warning", false);
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(log_.Level(), LogLevel::kError);
  EXPECT_FALSE(response_.settings().at("log_info").bool_param());
  EXPECT_TRUE(response_.settings().at("log_error").bool_param());
  Turn("log_error", false);
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(log_.Level(), LogLevel::kCritical);
}

TEST_F(LogSettingsTest, TurningOnTurnsOnWhatIsAbove) {
  log_.level = LogLevel::kCritical;
  Turn("log_info", true);
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(log_.Level(), LogLevel::kInfo);
  Verbose(7);
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(log_.Level(), LogLevel::kDebug);
  EXPECT_EQ(response_.settings().at("log_verbose_level").uint32_param(), 1u);
  Verbose(0);
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(log_.Level(), LogLevel::kInfo);
}

TEST_F(LogSettingsTest, WhatIsInForceAlreadyChangesNothing) {
  log_.level = LogLevel::kWarning;
  Turn("log_warning", true);
  Turn("log_info", false);
  Text("log_format", "ISO8601");
  ASSERT_TRUE(Answer().ok());
  EXPECT_EQ(log_.Level(), LogLevel::kWarning);
}

TEST_F(LogSettingsTest, AHoleBetweenTheLevelsIsRefused) {
  Turn("log_info", true);
  Turn("log_warning", false);
  Refused(absl::StatusCode::kInvalidArgument,
          "log_warning cannot be off while log_info is on");
  Verbose(1);
  Turn("log_error", false);
  Refused(absl::StatusCode::kInvalidArgument,
          "log_error cannot be off while log_verbose_level is on");
}

TEST_F(LogSettingsTest, FileAndFormatStayAsTheyAre) {
  Text("log_file", "/tmp/log");
  Turn("log_info", false);
  Refused(absl::StatusCode::kUnimplemented,
          "file location can not be updated through network protocol");
  Text("log_file", "");
  Refused(absl::StatusCode::kUnimplemented, "logs to standard error");
  Text("log_format", "json");
  Refused(absl::StatusCode::kUnimplemented,
          "log_format is ISO8601 and cannot be changed");
  Turn("log_format", true);
  Refused(absl::StatusCode::kUnimplemented, "start the server with another");
}

TEST_F(LogSettingsTest, OtherNamesAndTypesAreRefused) {
  Turn("log_infos", true);
  Refused(absl::StatusCode::kInvalidArgument, "no setting 'log_infos'");
  Text("log_info", "true");
  Refused(absl::StatusCode::kInvalidArgument, "log_info takes true or false");
  Turn("log_verbose_level", true);
  Refused(absl::StatusCode::kInvalidArgument,
          "log_verbose_level takes a whole number");
  (*request_.mutable_settings())["log_error"];  // without a value
  Refused(absl::StatusCode::kInvalidArgument, "log_error takes true or false");
}

}  // namespace
}  // namespace gpupool::server
