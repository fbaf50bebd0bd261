#include "server/server_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <vector>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ServerLogTest : public ::testing::Test {
 protected:
  ServerLogTest() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", lines_));
    spdlog::set_level(spdlog::level::info);
  }
  ~ServerLogTest() override {
    spdlog::set_default_logger(before_);
    spdlog::set_level(level_before_);
  }

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  const spdlog::level::level_enum level_before_ = spdlog::get_level();
  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> lines_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  ServerLog log_{"text"};
};

TEST_F(ServerLogTest, TheLevelIsTheLogs) {
  for (const LogLevel level :
       {LogLevel::kCritical, LogLevel::kError, LogLevel::kWarning,
        LogLevel::kInfo, LogLevel::kDebug}) {
    log_.SetLevel(level);
    EXPECT_EQ(log_.Level(), level);
  }
  EXPECT_TRUE(spdlog::should_log(spdlog::level::debug));
  spdlog::set_level(spdlog::level::trace);
  EXPECT_EQ(log_.Level(), LogLevel::kDebug);
  spdlog::set_level(spdlog::level::off);
  EXPECT_EQ(log_.Level(), LogLevel::kCritical);
}

TEST_F(ServerLogTest, AChangeIsLoggedIfInfoIsOnBeforeOrAfterIt) {
  log_.SetLevel(LogLevel::kWarning);
  EXPECT_THAT(lines_->last_formatted(),
              ElementsAre(HasSubstr("from=info to=warning")));
  log_.SetLevel(LogLevel::kError);
  EXPECT_EQ(lines_->last_formatted().size(), 1u);
  log_.SetLevel(LogLevel::kDebug);
  EXPECT_THAT(lines_->last_formatted().back(),
              HasSubstr("from=error to=debug"));
}

TEST_F(ServerLogTest, FormatsHaveTheProtocolsNames) {
  EXPECT_EQ(ServerLog("text").Format(), "ISO8601");
  EXPECT_EQ(ServerLog("json").Format(), "json");
  EXPECT_THAT(lines_->last_formatted(), IsEmpty());
}

}  // namespace
}  // namespace gpupool::server
