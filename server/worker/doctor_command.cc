#include "server/worker/doctor_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/ipc/slot_ring.h"
#include "server/worker/doctor/examine.h"
#include "server/worker/doctor/findings.h"
#include "server/worker/doctor/judge.h"
#include "server/worker/run_worker.h"

namespace gpupool::server {
namespace {

// The bytes of a worker's ring with the server's default settings.
constexpr uint64_t kDefaultRing =
    SlotRingOptions{}.slot_count * SlotRingOptions{}.slot_bytes;

struct DoctorOptions {
  ExamineOptions examine;
  double limit_seconds = 30;
  bool no_gpus = false;
  bool expect_gpu = false;
  bool list = false;
};

void AddOptions(CLI::App& app, DoctorOptions& options) {
  ExamineOptions& examine = options.examine;
  examine.ring_bytes = kDefaultRing;
  app.add_option("--cuda-lib-dir", examine.cuda_lib_dir,
                 "folder of NVIDIA's libraries, or several with colons between "
                 "them");
  app.add_option("--state-dir", examine.state_dir,
                 "the server's state folder; default none is looked at");
  app.add_option("--listen", examine.listen, "the server's address");
  app.add_option("--ports", examine.ports,
                 "the server's gRPC, HTTP and metrics port, with commas; "
                 "default none is looked at")
      ->delimiter(',')
      ->expected(1, 3);
  app.add_option("--ring-bytes", examine.ring_bytes,
                 absl::StrCat("bytes of a worker's slots; default ",
                              kDefaultRing >> 20, " MiB"));
  app.add_option("--limit-seconds", options.limit_seconds,
                 "how long the driver may take for an answer; default 30")
      ->check(CLI::Range(0.1, 600.0));
  app.add_flag("--no-gpus", options.no_gpus,
               "look at the machine, not at drivers and GPUs");
  app.add_flag("--expect-gpu", options.expect_gpu,
               "no GPU to use is a failure");
  app.add_flag("--list", options.list,
               "print the table of all findings instead");
  app.add_option("--root", examine.root,
                 "where /proc, /sys and /dev are read; for tests");
}

std::vector<std::string> ModuleDirs() {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return {folder.string(), (folder / "../lib").lexically_normal().string()};
}

}  // namespace

int RunDoctorCommand(int argc, char** argv) {
  DoctorOptions options;
  CLI::App app("Says what on this machine is wrong for gpupool, as JSON.",
               "gpupool-worker doctor");
  AddOptions(app, options);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kWorkerDone : kWorkerUsage;
  }
  if (options.list) {
    std::fputs(FindingsTable().c_str(), stdout);
    return kWorkerDone;
  }
  options.examine.module_dirs = ModuleDirs();
  options.examine.gpus = !options.no_gpus;
  options.examine.limit = absl::Seconds(options.limit_seconds);
  Findings findings(options.expect_gpu);
  Judge(Examine(options.examine), findings);
  std::printf("%s\n", ToJson(findings).c_str());
  return findings.worst() == Severity::kFail ? kWorkerFailed : kWorkerDone;
}

}  // namespace gpupool::server
