#include "server/startup_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Uses a script as the worker, and a log in memory.
class StartupCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/checkXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    before_ = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log_));
  }
  void TearDown() override {
    spdlog::set_default_logger(before_);
    std::filesystem::remove_all(folder_);
  }

  StartupCheckOptions Worker(const std::string& script) {
    const std::string path = (folder_ / "worker").string();
    std::ofstream(path) << "#!/bin/sh\n" << script;
    ::chmod(path.c_str(), 0700);
    return {.worker_binary = path, .state_dir = "/state", .ring_bytes = 7};
  }

  std::string Log() const {
    std::string text;
    for (const std::string& line : log_->last_formatted()) text += line;
    return text;
  }

  std::string AwaitLog(const std::string& part) const {
    WaitUntil([&] { return absl::StrContains(Log(), part); });
    return Log();
  }

  std::filesystem::path folder_;
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> log_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  std::shared_ptr<spdlog::logger> before_;
};

constexpr char kTwo[] =
    "echo '{\"findings\":[{\"id\":\"a.ok\",\"severity\":\"ok\"},"
    "{\"id\":\"a.warn\",\"severity\":\"warn\",\"text\":\"a \\\"b\\\"\","
    "\"remedy\":\"do c\"},{\"id\":\"a.fail\",\"severity\":\"fail\"}]}'\n";

TEST_F(StartupCheckTest, WarningsAndFailuresAreLogged) {
  const StartupCheck check(Worker(kTwo));
  const std::string log = AwaitLog("id=a.fail");
  EXPECT_THAT(log,
              HasSubstr("doctor id=a.warn text=\"a 'b'\" remedy=\"do c\""));
  EXPECT_THAT(log, HasSubstr("doctor id=a.fail"));
  EXPECT_THAT(log, Not(HasSubstr("a.ok")));
}

TEST_F(StartupCheckTest, TheWorkerKnowsWhatTheServerWants) {
  StartupCheckOptions options =
      Worker("echo \"$@\" > " + (folder_ / "got").string() + "\n" + kTwo);
  const auto got = [&](const StartupCheckOptions& asked) {
    const StartupCheck check(asked);
    AwaitLog("id=a.fail");
    std::string line;
    std::ifstream file(folder_ / "got");
    std::getline(file, line);
    return line;
  };
  EXPECT_EQ(got(options), "doctor --state-dir /state --ring-bytes 7 --no-gpus");
  options.may_use_gpus = true;
  options.needs_gpus = true;
  options.cuda_lib_dir = "/lib";
  log_ = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log_));
  EXPECT_EQ(got(options),
            "doctor --state-dir /state --ring-bytes 7 --cuda-lib-dir /lib "
            "--expect-gpu");
}

TEST_F(StartupCheckTest, OneThatHangsDoesNotKeepTheServer) {
  // The worker must end with the check, although it has time left.
  { const StartupCheck check(Worker("exec sleep 1000")); }
  EXPECT_EQ(Log(), "");
}

TEST_F(StartupCheckTest, AWorkerThatCannotBeAskedIsLogged) {
  const StartupCheck check({.worker_binary = "/no/where"});
  EXPECT_THAT(AwaitLog("not examined"), HasSubstr("/no/where"));
}

TEST_F(StartupCheckTest, AWorkerThatFailedIsNotTrusted) {
  const StartupCheck check(Worker(std::string(kTwo) + "exit 77"));
  EXPECT_THAT(AwaitLog("not examined"), HasSubstr("exit code 77"));
  EXPECT_THAT(Log(), Not(HasSubstr("a.fail")));
}

TEST_F(StartupCheckTest, NonsenseHasNoFindings) {
  for (const char* text : {"", "{", "{}", "[]", "{\"findings\":3}",
                           "{\"findings\":[3,{\"severity\":4}]}"}) {
    EXPECT_THAT(ParseFindings(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace gpupool::server
