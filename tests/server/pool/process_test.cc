#include "server/pool/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

class ProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/processXXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Process Shell(const std::string& script) {
    auto process = Process::Spawn({"/bin/sh", "-c", script}, folder_ + "/log");
    EXPECT_TRUE(process.ok()) << process.status();
    return *std::move(process);
  }
  std::string Log() {
    std::ifstream file(folder_ + "/log");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::string folder_;
};

TEST_F(ProcessTest, TellsTheExitCode) {
  Process process = Shell("exit 3");
  EXPECT_EQ(process.HowItEnded(5000), "exit code 3");
  EXPECT_EQ(process.HowItEnded(), "exit code 3");
  EXPECT_LT(::waitpid(process.pid(), nullptr, WNOHANG), 0);  // was reaped
}

TEST_F(ProcessTest, WhatCannotBeStartedIsToldInWords) {
  EXPECT_TRUE(CheckProgram("/bin/sh").ok());
  EXPECT_TRUE(absl::IsNotFound(CheckProgram(folder_ + "/none")));
  const absl::Status folder = CheckProgram(folder_);
  EXPECT_NE(folder.message().find("it is a folder"), std::string::npos);
  EXPECT_NE(folder.message().find("--worker-binary"), std::string::npos);
  std::ofstream(folder_ + "/text") << "text";
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckProgram(folder_ + "/text")));
}

TEST_F(ProcessTest, TellsTheSignal) {
  Process process = Shell("sleep 100");
  EXPECT_FALSE(process.HowItEnded().has_value());
  process.Kill();
  EXPECT_EQ(process.HowItEnded(5000), "killed by signal 9");
}

TEST_F(ProcessTest, RunsDetachedWithoutOurDescriptorsAndLogsItsOutput) {
  Process process = Shell(
      "ls /proc/self/fd | tr '\\n' ' '; echo; echo e >&2;"
      "ps -o sid= -p $$ 2>/dev/null | tr -d ' '");
  ASSERT_TRUE(process.HowItEnded(5000).has_value());
  // ls itself opens the folder as 3.
  EXPECT_EQ(Log().substr(0, 10), "0 1 2 3 \ne");
}

TEST_F(ProcessTest, DefaultsGiveWayToOurEnvironment) {
  ::setenv("PROCESS_TEST_SET", "ours", 1);
  ::unsetenv("PROCESS_TEST_UNSET");
  auto process = Process::Spawn(
      {"/bin/sh", "-c", "echo $PROCESS_TEST_SET $PROCESS_TEST_UNSET"},
      folder_ + "/log", {"PROCESS_TEST_SET=x", "PROCESS_TEST_UNSET=default"});
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(process->HowItEnded(5000).has_value());
  EXPECT_EQ(Log(), "ours default\n");
}

TEST_F(ProcessTest, LeadsASessionOfItsOwn) {
  Process process = Shell("sleep 100");
  EXPECT_EQ(::getsid(process.pid()), process.pid());
  process.Kill();
  process.HowItEnded(5000);
}

TEST_F(ProcessTest, WatchesAProcessThatIsNotItsChild) {
  Process child = Shell("sleep 100");
  auto watched = Process::Watch(child.pid());
  ASSERT_TRUE(watched.ok());
  EXPECT_FALSE(watched->HowItEnded().has_value());
  watched->Kill();
  EXPECT_EQ(watched->HowItEnded(5000), "ended");
  EXPECT_EQ(child.HowItEnded(5000), "killed by signal 9");
}

TEST_F(ProcessTest, UnknownPidAndMissingProgramAreErrors) {
  EXPECT_EQ(Process::Watch(0x3fffffff).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(
      Process::Spawn({"/nonexistent/x"}, folder_ + "/log").status().code(),
      absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpupool::server
