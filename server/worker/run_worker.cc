#include "server/worker/run_worker.h"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "server/ipc/work_page.h"
#include "server/ipc/worker_paths.h"
#include "server/log/json_log.h"
#include "server/log/text_log.h"
#include "server/worker/lease.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/sandbox/worker_view.h"
#include "server/worker/watched_engine.h"
#include "server/worker/worker_loop.h"
#include "spdlog/sinks/rotating_file_sink.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

constexpr size_t kMaxLogBytes = 8u << 20;
constexpr size_t kLogFiles = 2;
// In -1000 .. 1000; 0 is the usual score.
constexpr int kOutOfMemoryScore = 300;

constexpr int kLowPriority = 10;  // nice value; 0 is the usual one

LogSource SourceOf(const WorkerOptions& worker) {
  return {"gpupool-worker", worker.engine.device};
}

int Refuse(const WorkerOptions& worker, const absl::Status& status, int code) {
  const std::string text(status.message());
  const std::string line =
      worker.log_format == "json"
          ? JsonLogLine(SourceOf(worker), {absl::Now(), "error", text})
          : absl::StrCat("gpupool-worker: ", text);
  std::fprintf(stderr, "%s\n", line.c_str());
  return code;
}

// Makes the kernel prefer this worker to the daemon when memory runs out, since
// its jobs resume from checkpoints. Allowed to fail.
void OfferToOutOfMemoryKiller() {
  std::ofstream("/proc/self/oom_score_adj") << kOutOfMemoryScore;
}

// Sets process limits. No core dumps: they would hold users' models and data.
void LimitProcess(const std::string& device) {
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::umask(077);
  ::setsid();  // fails if the server has done so
  ::signal(SIGPIPE, SIG_IGN);
  OfferToOutOfMemoryKiller();
  // Its work can wait for that of devices.
  if (device == kRehearsalWorker) ::setpriority(PRIO_PROCESS, 0, kLowPriority);
  ::prctl(PR_SET_NAME, absl::StrCat("worker ", device).c_str());
}

// Returns a descriptor on which SIGTERM and SIGINT become readable. Call before
// any thread starts, since threads inherit the mask.
UniqueFd CatchStopSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

void StartLog(const WorkerOptions& worker, const std::string& path) {
  auto logger =
      spdlog::rotating_logger_mt("worker", path, kMaxLogBytes, kLogFiles);
  if (worker.log_format == "json") {
    logger->set_formatter(JsonLogFormatter(SourceOf(worker)));
  } else {
    logger->set_formatter(TextLogFormatter("%Y-%m-%dT%H:%M:%S.%e%z %l %v",
                                           spdlog::pattern_time_type::local));
  }
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

// Returns a name that no other start of a worker has.
std::string NewBootId() {
  std::array<char, 16> bytes = {};
  if (::getrandom(bytes.data(), bytes.size(), 0) < 0) {
    return absl::StrCat(::getpid(), "-", absl::GetCurrentTimeNanos());
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

// Returns the folder whose plans a planner reads: that of the device that it
// plans for. Empty for others.
std::string PlannedFolder(const WorkerOptions& worker) {
  const auto planned = WorkerPathsFor(worker.state_dir, worker.engine.plan_for);
  const bool reads = !worker.engine.plan_facts.empty() && planned.ok();
  return reads ? planned->folder : "";
}

// Makes the folders that the worker uses. Those of others are made, too,
// because the sandbox shows only what is there when the worker starts.
absl::Status MakeFolders(const WorkerOptions& worker,
                         const WorkerPaths& paths) {
  std::vector<std::string> folders = {paths.folder, paths.blobs};
  if (worker.joins_groups) folders.push_back(worker.state_dir + "/groups");
  if (const std::string planned = PlannedFolder(worker); !planned.empty()) {
    folders.push_back(planned);
  }
  for (const std::string& folder : folders) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot create ", folder, ": ", error.message()));
    }
  }
  return absl::OkStatus();
}

std::string PlanCacheDir(const WorkerOptions& worker,
                         const WorkerPaths& paths) {
  const std::string planned = PlannedFolder(worker);
  return absl::StrCat(planned.empty() ? paths.folder : planned, "/plans");
}

SandboxOptions SandboxOf(const WorkerOptions& worker,
                         const WorkerPaths& paths) {
  return SandboxOptionsFor({.device = worker.engine.device,
                            .state_dir = worker.state_dir,
                            .folder = paths.folder,
                            .blobs = paths.blobs,
                            .planned_folder = PlannedFolder(worker),
                            .library_folders = worker.engine.cuda_lib_dir,
                            .groups = worker.joins_groups});
}

// Shuts this process in. Goes on without the layers that the system lacks.
void EnterSandbox(const WorkerOptions& worker, const WorkerPaths& paths) {
  if (worker.sandbox == "off") {
    spdlog::warn("no sandbox: the server was started with --sandbox off");
    return;
  }
  const SandboxReport report = InstallSandbox(SandboxOf(worker, paths));
  spdlog::info("sandbox layers={}", absl::StrJoin(report.layers, ","));
  for (const std::string& reason : report.missing) {
    spdlog::warn("sandbox lacks a layer: {}", reason);
  }
}

// Forbids Unix sockets, of which the worker needs none once it listens.
void EndUnixSockets(const WorkerOptions& worker, const WorkerPaths& paths) {
  if (worker.sandbox == "off") return;
  if (const absl::Status ended = ForbidUnixSockets(SandboxOf(worker, paths));
      !ended.ok()) {
    spdlog::warn("sandbox lacks a layer: {}", std::string(ended.message()));
  }
}

// Descriptors that the loop gets. Borrowed.
struct LoopDescriptors {
  int stop = -1;  // readable on a signal to stop
  int work = -1;  // work page
};

absl::Status Serve(const WorkerOptions& worker, const WorkerPaths& paths,
                   const LoopDescriptors& descriptors, Engine* engine) {
  ASSIGN_OR_RETURN(
      ReportSpool spool,
      ReportSpool::Open(
          paths.spool, static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()))));
  ASSIGN_OR_RETURN(ControlListener listener,
                   ControlListener::Listen(paths.socket));
  EndUnixSockets(worker, paths);
  WorkerLoopOptions options;
  options.device = worker.engine.device;
  options.joins_groups = worker.joins_groups;
  options.boot_id = NewBootId();
  options.orphan_timeout = absl::Seconds(worker.orphan_seconds);
  options.checkpoint_interval = absl::Seconds(worker.checkpoint_seconds);
  options.stop_fd = descriptors.stop;
  spdlog::info(
      "worker starts device={} pid={} boot_id={} threads={} "
      "limit_bytes={} spooled_reports={}",
      options.device, ::getpid(), options.boot_id, worker.engine.threads,
      worker.engine.memory_limit_bytes, spool.reports().size());
  options.work_fd = descriptors.work;
  WorkerLoop loop(std::move(options), engine, std::move(listener),
                  std::move(spool));
  loop.Run();
  ::unlink(paths.socket.c_str());
  spdlog::info("worker ends");
  if (const int code = engine->exit_code(); code != 0) {
    spdlog::shutdown();
    std::_Exit(code);  // freeing memory of a faulty device may hang
  }
  return absl::OkStatus();
}

}  // namespace

int ExitWithoutEngine(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
                 absl::IsUnimplemented(status)
             ? kWorkerNoDevice
             : kWorkerFailed;
}

int RunWorker(WorkerOptions worker, const EngineFactory& make_engine) {
  const absl::StatusOr<WorkerPaths> paths =
      WorkerPathsFor(worker.state_dir, worker.engine.device);
  if (!paths.ok()) return Refuse(worker, paths.status(), kWorkerUsage);
  LimitProcess(worker.engine.device);
  if (absl::Status made = MakeFolders(worker, *paths); !made.ok()) {
    return Refuse(worker, made, kWorkerFailed);
  }
  // The order matters: only the holder of the lease may write the log, the
  // spool and the socket.
  const absl::StatusOr<Lease> lease =
      Lease::Take(paths->lease, worker.engine.device);
  if (!lease.ok()) return Refuse(worker, lease.status(), kWorkerLeaseHeld);
  const UniqueFd stop = CatchStopSignals();
  StartLog(worker, paths->log);
  worker.engine.blob_dir = paths->blobs;
  worker.engine.unpack_dir = paths->folder;
  worker.engine.plan_cache_dir = PlanCacheDir(worker, *paths);
  // Before the first thread, since not every layer holds for threads that live,
  // and before the first byte of a user.
  EnterSandbox(worker, *paths);
  auto made = make_engine(worker.engine);
  if (!made.ok()) {
    spdlog::error("no engine error=\"{}\"",
                  std::string(made.status().message()));
    return Refuse(worker, made.status(), ExitWithoutEngine(made.status()));
  }
  absl::StatusOr<WorkPage> page = WorkPage::Create();
  if (!page.ok()) return Refuse(worker, page.status(), kWorkerFailed);
  const std::unique_ptr<Engine> engine = WatchEngine(*std::move(made), &*page);
  const absl::Status served = Serve(
      worker, *paths, {.stop = stop.get(), .work = page->fd()}, engine.get());
  return served.ok() ? kWorkerDone : Refuse(worker, served, kWorkerFailed);
}

}  // namespace gpupool::server
