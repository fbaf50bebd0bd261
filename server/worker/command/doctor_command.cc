#include "server/worker/command/doctor_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/ipc/slot_ring.h"
#include "server/worker/doctor/examine.h"
#include "server/worker/doctor/findings.h"
#include "server/worker/doctor/judge.h"
#include "server/worker/doctor/place_facts.h"
#include "server/worker/run_worker.h"

namespace gpupool::server {
namespace {

// Size of a worker's ring with the server's default settings.
constexpr uint64_t kDefaultRing =
    SlotRingOptions{}.slot_count * SlotRingOptions{}.slot_bytes;

constexpr uint64_t kMostRing = uint64_t{1} << 50;
constexpr double kLeastSeconds = 0.1;
constexpr double kMostSeconds = 600;
constexpr uint32_t kMostPort = 65535;

struct DoctorOptions {
  ExamineOptions examine;
  double limit_seconds = absl::ToDoubleSeconds(ExamineOptions{}.limit);
  double total_seconds = absl::ToDoubleSeconds(ExamineOptions{}.total);
  bool no_gpus = false;
  bool expect_gpu = false;
  bool list = false;
};

// Rejects text that is not a number, which CLI::Range accepts.
std::string CheckSeconds(const std::string& text) {
  double seconds = 0;
  const bool good = absl::SimpleAtod(text, &seconds) &&
                    seconds >= kLeastSeconds && seconds <= kMostSeconds;
  return good ? ""
              : absl::StrCat("'", text, "' is not a number of seconds from ",
                             kLeastSeconds, " to ", kMostSeconds);
}

// Rejects text that converts to an unsigned number by wrapping.
std::string CheckRing(const std::string& text) {
  uint64_t bytes = 0;
  return absl::SimpleAtoi(text, &bytes) && bytes <= kMostRing
             ? ""
             : absl::StrCat("'", text, "' is not a number of bytes from 0 to ",
                            kMostRing, "; write --slots times --slot-bytes");
}

std::string CheckPort(const std::string& text) {
  uint32_t port = 0;
  return absl::SimpleAtoi(text, &port) && port <= kMostPort
             ? ""
             : absl::StrCat("'", text, "' is not a port; write 0 to ",
                            kMostPort);
}

std::string CheckAddress(const std::string& text) {
  return IsAddress(text) ? ""
                         : absl::StrCat("'", text,
                                        "' is not an IP address such as "
                                        "127.0.0.1, 0.0.0.0 or ::1");
}

std::string CheckFolder(const std::string& text) {
  return text.empty() ? "it is empty; name a folder" : "";
}

// Opens closed standard streams: otherwise a library's file would get their
// descriptors and printed lines would go there. Returns whether standard output
// was open.
bool OpenStandardStreams() {
  const bool open = ::fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  int opened = 0;
  do {
    opened = ::open("/dev/null", O_RDWR);
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) ::close(opened);
  return open;
}

int Print(const std::string& text, int code) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) {
    return code;
  }
  std::fputs(
      "gpupool-worker doctor: the output cannot be written; check whether its "
      "disk is full\n",
      stderr);
  return kWorkerFailed;
}

void AddOptions(CLI::App& app, DoctorOptions& options) {
  ExamineOptions& examine = options.examine;
  examine.ring_bytes = kDefaultRing;
  app.add_option(
      "--cuda-lib-dir", examine.cuda_lib_dir,
      "folder of NVIDIA's libraries, or several separated by colons");
  app.add_option("--state-dir", examine.state_dir,
                 "the server's state folder; default none")
      ->check(CLI::Validator(CheckFolder, ""));
  app.add_option("--listen", examine.listen, "the server's address")
      ->check(CLI::Validator(CheckAddress, ""));
  app.add_option("--ports", examine.ports,
                 "the server's gRPC, HTTP and metrics ports, separated by "
                 "commas; default none")
      ->delimiter(',')
      ->expected(1, 3)
      ->check(CLI::Validator(CheckPort, ""));
  app.add_option("--ring-bytes", examine.ring_bytes,
                 absl::StrCat("bytes of a worker's slots; default ",
                              kDefaultRing >> 20, " MiB"))
      ->check(CLI::Validator(CheckRing, ""));
  app.add_option("--limit-seconds", options.limit_seconds,
                 absl::StrCat("time limit of each answer; default ",
                              options.limit_seconds))
      ->check(CLI::Validator(CheckSeconds, ""));
  app.add_option("--total-seconds", options.total_seconds,
                 absl::StrCat("time limit of all answers together; default ",
                              options.total_seconds))
      ->check(CLI::Validator(CheckSeconds, ""));
  app.add_flag("--no-gpus", options.no_gpus,
               "examine the machine, but not drivers and GPUs");
  app.add_flag("--expect-gpu", options.expect_gpu,
               "report a missing GPU as a failure");
  app.add_flag("--list", options.list,
               "print the table of all findings instead");
  app.add_option("--root", examine.root,
                 "where /proc, /sys and /dev are read; for tests")
      ->check(CLI::ExistingDirectory);
}

std::vector<std::string> ModuleDirs() {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return {folder.string(), (folder / "../lib").lexically_normal().string()};
}

}  // namespace

int RunDoctorCommand(int argc, char** argv) {
  if (!OpenStandardStreams()) {
    std::fputs(
        "gpupool-worker doctor: standard output is closed; the findings "
        "go there\n",
        stderr);
    return kWorkerFailed;
  }
  DoctorOptions options;
  CLI::App app(
      "Reports what keeps gpupool from using this machine's GPUs, as JSON.",
      "gpupool-worker doctor");
  AddOptions(app, options);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kWorkerDone : kWorkerUsage;
  }
  if (options.list) return Print(FindingsTable(), kWorkerDone);
  options.examine.module_dirs = ModuleDirs();
  options.examine.gpus = !options.no_gpus;
  options.examine.limit = absl::Seconds(options.limit_seconds);
  options.examine.total = absl::Seconds(options.total_seconds);
  Findings findings(options.expect_gpu);
  Judge(Examine(options.examine), findings);
  return Print(ToJson(findings) + "\n", findings.worst() == Severity::kFail
                                            ? kWorkerFailed
                                            : kWorkerDone);
}

}  // namespace gpupool::server
