// gpupool-worker: one process per device.
#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/worker/command/check_command.h"
#include "server/worker/command/devices_command.h"
#include "server/worker/command/doctor_command.h"
#include "server/worker/command/explain_command.h"
#include "server/worker/run_worker.h"
#include "server/worker/session_engine.h"

int main(int argc, char** argv) {
  // Debian's Abseil checks the order of locks at every lock, and ends the
  // process at a possible deadlock. Only tests keep that check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (argc > 1 && std::string_view(argv[1]) == "explain") {
    return gpupool::server::RunExplainCommand(argc, argv);
  }
  if (argc > 1 && std::string_view(argv[1]) == "devices") {
    return gpupool::server::RunDevicesCommand(argc, argv);
  }
  if (argc > 1 && std::string_view(argv[1]) == "doctor") {
    return gpupool::server::RunDoctorCommand(argc, argv);
  }
  if (argc > 1 && std::string_view(argv[1]) == "check") {
    return gpupool::server::RunCheckCommand(argc, argv);
  }
  gpupool::server::WorkerOptions worker;
  CLI::App app(
      "Owns one device of a gpupool server: trains and answers for it. Started "
      "by gpupoold. Other commands: 'gpupool-worker explain' shows how the "
      "graph compiler compiles a model, 'gpupool-worker devices' lists the "
      "GPUs, 'gpupool-worker doctor' finds out what is wrong with them, "
      "'gpupool-worker check' checks a model file.",
      "gpupool-worker");
  app.set_version_flag("--version", "gpupool-worker " GPUPOOL_VERSION);
  app.add_option("--device", worker.engine.device, "meta, cpu:N or cuda:N")
      ->required();
  app.add_option("--state-dir", worker.state_dir, "the server's state folder")
      ->required();
  app.add_option("--memory-limit-bytes", worker.engine.memory_limit_bytes,
                 "bytes that the device may hold; 0: no limit");
  app.add_option("--threads", worker.engine.threads, "threads for computing")
      ->check(CLI::Range(1, gpupool::server::kMaxWorkerThreads));
  app.add_option(
      "--plan-for", worker.engine.plan_for,
      "meta: the device that plans are made for, cpu or cuda:N; default cpu");
  app.add_option("--plan-facts", worker.engine.plan_facts,
                 "meta: that GPU as 'gpupool-worker devices' prints it; with "
                 "them the worker sees no GPU itself");
  app.add_option("--cuda-lib-dir", worker.engine.cuda_lib_dir,
                 "folder of NVIDIA's libraries, or several separated by "
                 "colons; default the system's folders");
  app.add_option("--orphan-seconds", worker.orphan_seconds,
                 "end after this time without a server and without a job")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--checkpoint-seconds", worker.checkpoint_seconds,
                 "time between checkpoints of jobs without "
                 "checkpoint_every_steps; 0: none")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--log-format", worker.log_format,
                 "form of the lines of the log: text or json")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_option("--sandbox", worker.sandbox,
                 "auto: give up what the worker does not need, as far as the "
                 "kernel can take it away; off: for debugging")
      ->check(CLI::IsMember({"auto", "off"}));
  app.add_flag("--joins-groups", worker.joins_groups,
               "the worker connects to others for jobs on several devices");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? gpupool::server::kWorkerDone
                                : gpupool::server::kWorkerUsage;
  }
  return gpupool::server::RunWorker(std::move(worker),
                                    gpupool::server::MakeSessionEngine);
}
