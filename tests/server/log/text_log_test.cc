#include "server/log/text_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "spdlog/logger.h"
#include "spdlog/sinks/ostream_sink.h"

namespace gpupool::server {
namespace {

TEST(TextLogTest, OrdinaryMessagesStayAsTheyAre) {
  for (const char* message :
       {"", "drained", "job ended job=7 outcome=FAILED error=\"x\"",
        "a=\"one, two\" b=3 c=\"\"", "worker lost reason=\"x y\" pid=3",
        "größe 模型 🙂", "he said \"no\" twice", "a path C:\\x"}) {
    EXPECT_EQ(EscapedForText(message), message);
  }
}

TEST(TextLogTest, AMessageIsOneLineWithoutControlCharacters) {
  EXPECT_EQ(EscapedForText("socket=pub/n\nl\r\t\x1b[2J\x7f"),
            "socket=pub/n\\nl\\r\\t\\x1b[2J\\x7f");
  EXPECT_EQ(EscapedForText("\xc2\x9b"
                           "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(EscapedForText(std::string("\0", 1)), "\\x00");
}

TEST(TextLogTest, QuotesAndBackslashesInValuesAreEscaped) {
  EXPECT_EQ(EscapedForText("reason=\"no \"x\" here\" pid=3"),
            "reason=\"no \\\"x\\\" here\" pid=3");
  EXPECT_EQ(EscapedForText("error=\"is \"x\"\""), "error=\"is \\\"x\\\"\"");
  EXPECT_EQ(EscapedForText("error=\"a\\b\""), "error=\"a\\\\b\"");
}

TEST(TextLogTest, ALoggerWritesOneLineAMessage) {
  std::ostringstream lines;
  spdlog::logger logger(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
  logger.set_formatter(
      TextLogFormatter("%l %v", spdlog::pattern_time_type::utc));
  logger.info("socket={} next=1", "pub/\nnl");
  logger.warn("drained");
  EXPECT_EQ(lines.str(), "info socket=pub/\\nnl next=1\nwarning drained\n");
}

}  // namespace
}  // namespace gpupool::server
