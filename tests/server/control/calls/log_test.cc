#include "server/control/calls/log.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

// Captures the log during its lifetime.
class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogTest() override { spdlog::set_default_logger(before_); }

  std::ostringstream lines_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(LogTest, LinesKeepTheirLevelAndTheirBraces) {
  LogInfo("event=a");
  LogWarning("event=b text=\"{} {0}\"");
  LogCritical("event=c");
  EXPECT_EQ(lines_.str(),
            "info event=a\nwarning event=b text=\"{} {0}\"\n"
            "critical event=c\n");
}

}  // namespace
}  // namespace gpupool::server
