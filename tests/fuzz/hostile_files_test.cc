// A hostile file must end in a clear answer within bounded memory. Each file is
// opened and imported in its own child process with a limited address space.
// The time and memory are printed, but time is not asserted, because machines
// are busy.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "tests/engine/scratch_folder.h"
#include "tests/fuzz/hostile_models.h"
#include "tests/fuzz/sanitized.h"

namespace gpupool::engine::onnx_import {
namespace {

// Memory that an import may take in addition to a few times its file's size.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr unsigned kHungAfterSeconds = 50;
// Longer texts do not fit into the messages that carry errors.
constexpr size_t kMostText = 8192;

absl::Status Import(const std::string& path) {
  const auto file = OnnxFile::Open(path);
  if (!file.ok()) return file.status();
  return ImportOnnx(**file, {.batch = 1}).status();
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) * 1e-6;
}

struct Outcome {
  int exit = -1;  // exit code of the process: the status code of the import
  std::string text;
  double seconds = 0;
  uint64_t bytes = 0;  // largest resident size
};

// Runs the import in the child. Never returns.
void ImportAndExit(const std::string& path, int report) {
  alarm(kHungAfterSeconds);
  if (!kSanitized) {
    const rlimit limit{4 * kMostBytes, 4 * kMostBytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  const absl::Status status = Import(path);
  const absl::string_view text = status.message();
  const size_t shown = std::min(text.size(), 2 * kMostText);
  const bool written = write(report, text.data(), shown) >= 0;
  _exit(written ? static_cast<int>(status.code()) : 100);
}

Outcome ImportApart(const std::string& path) {
  Outcome outcome;
  int report[2];
  EXPECT_EQ(pipe(report), 0);
  const pid_t child = fork();
  if (child == 0) ImportAndExit(path, report[1]);
  close(report[1]);
  char buffer[4096];
  for (ssize_t got = 0; (got = read(report[0], buffer, sizeof(buffer))) > 0;) {
    outcome.text.append(buffer, static_cast<size_t>(got));
  }
  close(report[0]);
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  outcome.bytes = static_cast<uint64_t>(usage.ru_maxrss) << 10;
  return outcome;
}

bool IsAnAnswer(int code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
      return true;
    default:
      return false;
  }
}

class HostileFilesTest : public ::testing::TestWithParam<HostileModel> {};

TEST_P(HostileFilesTest, EndsInAClearAnswerWithinBounds) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/model.onnx";
  size_t file_bytes = 0;
  {
    const std::string bytes = GetParam().make();
    file_bytes = bytes.size();
    std::ofstream(path, std::ios::binary) << bytes;
  }
  const Outcome outcome = ImportApart(path);
  std::printf("%s: %.2f s, %.0f MiB (file of %.1f MiB), code %d: %.300s\n",
              GetParam().name.c_str(), outcome.seconds,
              static_cast<double>(outcome.bytes) / (1 << 20),
              static_cast<double>(file_bytes) / (1 << 20), outcome.exit,
              outcome.text.c_str());
  EXPECT_TRUE(IsAnAnswer(outcome.exit)) << outcome.exit;
  if (!GetParam().refusal.empty()) {
    EXPECT_NE(outcome.exit, static_cast<int>(absl::StatusCode::kOk));
    EXPECT_TRUE(absl::StrContains(outcome.text, GetParam().refusal))
        << outcome.text;
  }
  EXPECT_LE(outcome.text.size(), kMostText);
  if (!kSanitized) {
    EXPECT_LE(outcome.bytes, kMostBytes + 8 * file_bytes);
  }
}

std::vector<HostileModel> All() {
  std::vector<HostileModel> all = HostileNumbers();
  for (HostileModel& model : HostileStructures()) {
    all.push_back(std::move(model));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, HostileFilesTest, ::testing::ValuesIn(All()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gpupool::engine::onnx_import
