#include "server/worker/run_worker.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/ipc/control_channel.h"
#include "server/ipc/worker_paths.h"
#include "tests/test_paths.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

class RunWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/workerXXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    state_dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(state_dir_); }

  Outcome Run(const std::string& flags) {
    const std::string command =
        absl::StrCat(BinaryPath("gpupool-fake-worker"), " ", flags, " 2>&1");
    FILE* const pipe = ::popen(command.c_str(), "r");
    Outcome outcome;
    std::array<char, 4096> chunk;
    while (::fgets(chunk.data(), chunk.size(), pipe) != nullptr) {
      outcome.output += chunk.data();
    }
    const int status = ::pclose(pipe);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }
  pid_t Background() {
    const std::string binary = BinaryPath("gpupool-fake-worker");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execl(binary.c_str(), "worker", "--device", "cpu:0", "--state-dir",
              state_dir_.c_str(), nullptr);
      ::_exit(127);
    }
    const std::string socket = WorkerPathsFor(state_dir_, "cpu:0")->socket;
    EXPECT_TRUE(
        WaitUntil([&] { return ControlChannel::Connect(socket).ok(); }));
    return pid;
  }
  std::string state_dir_;
};

TEST_F(RunWorkerTest, TellsItsVersion) {
  const Outcome outcome = Run("--version");
  EXPECT_EQ(outcome.exit_code, kWorkerDone);
  EXPECT_EQ(outcome.output.find("gpupool-worker "), 0u) << outcome.output;
}

TEST_F(RunWorkerTest, BadFlagsAreUsageErrors) {
  EXPECT_EQ(Run("").exit_code, kWorkerUsage);
  EXPECT_EQ(Run("--device cpu:0").exit_code, kWorkerUsage);
  EXPECT_EQ(
      Run(absl::StrCat("--device cpu:x --state-dir ", state_dir_)).exit_code,
      kWorkerUsage);
  EXPECT_EQ(
      Run(absl::StrCat("--device cpu:0 --threads 0 --state-dir ", state_dir_))
          .exit_code,
      kWorkerUsage);
}

TEST_F(RunWorkerTest, ADeviceThatIsNotThereHasAnExitCodeOfItsOwn) {
  const Outcome outcome =
      Run(absl::StrCat("--device cuda:0 --state-dir ", state_dir_));
  EXPECT_EQ(outcome.exit_code, kWorkerNoDevice);
  EXPECT_EQ(outcome.output, "gpupool-worker: the stand-in drives no GPU\n");
}

TEST_F(RunWorkerTest, RefusalsAndTheLogAreJsonIfThatIsAsked) {
  const std::string flags =
      absl::StrCat("--device cuda:0 --state-dir ", state_dir_);
  EXPECT_EQ(Run(flags + " --log-format xml").exit_code, kWorkerUsage);
  const Outcome outcome = Run(flags + " --log-format json");
  EXPECT_EQ(outcome.exit_code, kWorkerNoDevice);
  EXPECT_EQ(outcome.output.find("{\"time\":\""), 0u) << outcome.output;
  EXPECT_NE(outcome.output.find(
                R"(Z","level":"error","message":"the stand-in drives no GPU",)"
                R"("source":"gpupool-worker","device":"cuda:0"})"
                "\n"),
            std::string::npos)
      << outcome.output;
  std::ifstream log(WorkerPathsFor(state_dir_, "cuda:0")->log);
  std::string line;
  int lines = 0;
  for (; std::getline(log, line); ++lines) {
    EXPECT_EQ(line.find("{\"time\":\""), 0u) << line;
    EXPECT_NE(line.find(R"("device":"cuda:0"})"), std::string::npos) << line;
  }
  EXPECT_GE(lines, 1);
}

TEST_F(RunWorkerTest, TheLogTellsOfTheSandbox) {
  const std::string flags =
      absl::StrCat("--device cuda:0 --state-dir ", state_dir_);
  const auto log = [&] {
    std::ifstream file(WorkerPathsFor(state_dir_, "cuda:0")->log);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(Run(flags + " --sandbox maybe").exit_code, kWorkerUsage);
  EXPECT_EQ(Run(flags + " --sandbox off").exit_code, kWorkerNoDevice);
  EXPECT_NE(log().find("no sandbox"), std::string::npos) << log();
  EXPECT_EQ(log().find("sandbox layers="), std::string::npos) << log();
  EXPECT_EQ(Run(flags).exit_code, kWorkerNoDevice);
  EXPECT_NE(log().find("sandbox layers="), std::string::npos) << log();
}

TEST_F(RunWorkerTest, SecondWorkerOfADeviceIsRefusedAndNamesTheFirst) {
  const pid_t first = Background();
  const Outcome outcome =
      Run(absl::StrCat("--device cpu:0 --state-dir ", state_dir_));
  EXPECT_EQ(outcome.exit_code, kWorkerLeaseHeld);
  EXPECT_NE(outcome.output.find(absl::StrCat("process ", first)),
            std::string::npos)
      << outcome.output;
  // The first worker still listens.
  EXPECT_TRUE(
      ControlChannel::Connect(WorkerPathsFor(state_dir_, "cpu:0")->socket)
          .ok());
  ::kill(first, SIGKILL);
  ::waitpid(first, nullptr, 0);
  // Its lease ended with it.
  EXPECT_EQ(Run(absl::StrCat("--device cpu:0 --orphan-seconds 0 --state-dir ",
                             state_dir_))
                .exit_code,
            kWorkerDone);
}

TEST_F(RunWorkerTest, StopSignalEndsItCleanly) {
  const pid_t worker = Background();
  ASSERT_EQ(::kill(worker, SIGTERM), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(worker, &status, 0), worker);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kWorkerDone);
  const WorkerPaths paths = *WorkerPathsFor(state_dir_, "cpu:0");
  EXPECT_FALSE(std::filesystem::exists(paths.socket));
  EXPECT_TRUE(std::filesystem::exists(paths.log));
}

}  // namespace
}  // namespace gpupool::server
