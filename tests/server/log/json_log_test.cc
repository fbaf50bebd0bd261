#include "server/log/json_log.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "spdlog/logger.h"
#include "spdlog/sinks/ostream_sink.h"

namespace gpupool::server {
namespace {

using nlohmann::json;

const absl::Time kTime =
    absl::UnixEpoch() + absl::Seconds(1764126226) + absl::Microseconds(42);

std::string Line(absl::string_view message, const std::string& device = "") {
  return JsonLogLine({"gpupoold", device}, {kTime, "info", message});
}

using Fields = std::map<std::string, std::string>;

// Returns the line without what every line has.
Fields Ids(absl::string_view message, const std::string& device = "") {
  json line = json::parse(Line(message, device));
  for (const char* name : {"time", "level", "message", "source"}) {
    EXPECT_EQ(line.erase(name), 1u) << name;
  }
  return line.get<Fields>();
}

TEST(JsonLogTest, ALineHasItsTimeLevelMessageAndSource) {
  EXPECT_EQ(Line("drained"),
            R"({"time":"2025-11-26T03:03:46.000042Z","level":"info",)"
            R"("message":"drained","source":"gpupoold"})");
}

TEST(JsonLogTest, IdsAreFieldsAndStayInTheMessage) {
  const char* message =
      "job ended job=7 attempt=2 step=40 outcome=FAILED error=\"x\"";
  EXPECT_EQ(Ids(message), (Fields{{"job", "7"}, {"attempt", "2"}}));
  EXPECT_EQ(json::parse(Line(message))["message"], message);
  EXPECT_EQ(
      Ids("version ready model=digits version=3 device=cuda:1"),
      (Fields{{"model", "digits"}, {"version", "3"}, {"device", "cuda:1"}}));
  EXPECT_EQ(Ids("event=swept files=3"), (Fields{{"event", "swept"}}));
}

TEST(JsonLogTest, AWorkersLinesNameItsDevice) {
  EXPECT_EQ(Ids("worker ends", "cpu:1"), (Fields{{"device", "cpu:1"}}));
  EXPECT_EQ(Ids("lost device=cpu:0", "cpu:1"), (Fields{{"device", "cpu:0"}}));
}

TEST(JsonLogTest, WhatSomebodyElseWroteGivesNoIds) {
  EXPECT_EQ(Ids("worker lost device=cpu:0 reason=\"x job=9\" pid=3"),
            (Fields{{"device", "cpu:0"}}));
  EXPECT_EQ(Ids("worker keeps its settings device=cpu:0: job=9"),
            (Fields{{"device", "cpu:0"}}));
  EXPECT_EQ(Ids("the device tells nothing: job=9"), Fields());
}

TEST(JsonLogTest, WordsThatNameNoIdAreNoFields) {
  EXPECT_EQ(Ids("time=1 level=x message=y source=z jobs=3 job= =4 = job"),
            Fields());
  EXPECT_EQ(Ids("job=1 job=2 job=a=b"), (Fields{{"job", "1"}}));
  EXPECT_EQ(Ids("job=a=b"), (Fields{{"job", "a=b"}}));
  EXPECT_EQ(Ids(""), Fields());
}

TEST(JsonLogTest, EveryByteStaysOnOneLineAndComesBack) {
  std::string ascii;
  for (int c = 0; c < 128; ++c) ascii.push_back(static_cast<char>(c));
  for (const std::string& text : {ascii, std::string("a\nb\r\n\tc\\d\"e"),
                                  std::string("größe 模型 🙂")}) {
    const std::string line = Line(text);
    for (const char c : line) {
      EXPECT_GE(static_cast<unsigned char>(c), 0x20) << line;
    }
    EXPECT_EQ(json::parse(line)["message"], text);
  }
}

TEST(JsonLogTest, BytesThatAreNoUtf8AreReplaced) {
  const std::string replaced = "\xef\xbf\xbd";
  const auto message = [](const std::string& text) {
    return json::parse(Line(text))["message"].get<std::string>();
  };
  EXPECT_EQ(message("a\xff\x62"), "a" + replaced + "b");
  EXPECT_EQ(message("end \xe2\x82"), "end " + replaced) << "cut short";
  EXPECT_EQ(Ids("job=\xff"), (Fields{{"job", replaced}}));
  for (const char* text : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_NE(message(text).find(replaced), std::string::npos);
  }
}

TEST(JsonLogTest, ALoggerWritesOneObjectALine) {
  std::ostringstream lines;
  spdlog::logger logger(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
  logger.set_formatter(JsonLogFormatter({"gpupool-worker", "cpu:0"}));
  logger.info("job started job={} attempt={}", 7, 1);
  logger.error("two\nlines");
  logger.warn("");
  std::istringstream read(lines.str());
  std::string line;
  std::vector<json> found;
  while (std::getline(read, line)) found.push_back(json::parse(line));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]["job"], "7");
  EXPECT_EQ(found[0]["level"], "info");
  EXPECT_EQ(found[0]["device"], "cpu:0");
  EXPECT_EQ(found[1]["message"], "two\nlines");
  EXPECT_EQ(found[1]["level"], "error");
  EXPECT_EQ(found[2]["level"], "warning");
  EXPECT_EQ(found[2]["message"], "");
}

}  // namespace
}  // namespace gpupool::server
