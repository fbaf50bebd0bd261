// gpupoold: the daemon.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <pthread.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/synchronization/mutex.h"
#include "server/config_flags.h"
#include "server/log/json_log.h"
#include "server/log/text_log.h"
#include "server/open_files.h"
#include "server/server.h"
#include "server/store/check.h"

namespace gpupool {
extern const char kCommit[];  // cmake/commit.cmake; empty: not known
}

namespace gpupool::server {
namespace {

constexpr int kExitUnwritten = 1;
// Exit codes of sysexits.h: EX_USAGE, EX_DATAERR, EX_UNAVAILABLE.
constexpr int kExitUsage = 64;
constexpr int kExitDamaged = 65;
constexpr int kExitCannotStart = 69;
constexpr int kExitSecondSignal = 130;

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "gpupoold: %s\n", std::string(status.message()).c_str());
  return code;
}

// Blocks the signals. Call before any thread exists, so that all threads
// inherit the mask and only WatchSignals gets the signals.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // A write beyond `ulimit -f` fails instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return signals;
}

// Drains the server at the first signal. A second one ends the process at once.
[[noreturn]] void WatchSignals(sigset_t signals, Server* server) {
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  spdlog::info("signal {}: stopping; a second one ends at once", number);
  server->RequestStop();
  while (sigwait(&signals, &number) != 0) {
  }
  _exit(kExitSecondSignal);
}

// Returns whether a signal is pending for WatchSignals, which starts only after
// the server.
bool StopIsAsked() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGINT) == 1;
}

// Writes a line of gRPC to the log. It may have bytes of a header, whose line
// breaks would begin lines of their own. Threads of gRPC may outlive the
// logger.
void LogOfGrpc(gpr_log_func_args* line) {
  if (spdlog::default_logger_raw() == nullptr) return;
  const auto level = line->severity == GPR_LOG_SEVERITY_ERROR
                         ? spdlog::level::err
                         : spdlog::level::debug;
  spdlog::log(level, "grpc: {}", absl::Utf8SafeCHexEscape(line->message));
}

void SetUpLog(const Config& config) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("gpupoold"));
  if (config.log_format == "json") {
    spdlog::set_formatter(JsonLogFormatter({"gpupoold", ""}));
  } else {
    spdlog::set_formatter(TextLogFormatter("%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                                           spdlog::pattern_time_type::utc));
  }
  spdlog::set_level(spdlog::level::from_str(config.log_level));
  spdlog::flush_on(spdlog::level::info);
  gpr_set_log_function(LogOfGrpc);
  // Otherwise every request that cannot be parsed writes to standard error.
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*,
                                     int, const std::string& text) {
    spdlog::debug("protobuf: {}", absl::Utf8SafeCHexEscape(text));
  });
}

// Each connection and each mapped data set needs open files. The usual soft
// limit of 1,024 is for programs that use select().
void RaiseLimits() {
  const absl::StatusOr<OpenFileLimit> files = RaiseOpenFileLimit();
  if (!files.ok()) {
    spdlog::warn("the limit of open files stays as it is error=\"{}\"",
                 std::string(files.status().message()));
  } else if (files->now > files->before) {
    spdlog::info("the limit of open files is raised from={} to={}",
                 files->before, files->now);
  }
}

// Warns, once, when callers on other machines need not prove who they are.
void WarnAboutListening(const Config& config) {
  const bool local = config.listen == "127.0.0.1" || config.listen == "::1";
  if (local || !config.tls.client_ca.empty()) return;
  const bool tokens = config.auth != "none";
  if (tokens && config.tls.on()) return;
  if (tokens) {
    spdlog::warn(
        "callers on other machines need tokens, which are sent in the clear "
        "listen={} remedy=\"set tls-certificate and tls-key\"",
        config.listen);
  } else if (config.tls.on()) {
    spdlog::warn(
        "any client that reaches the server may call it listen={} "
        "remedy=\"set tls-client-ca or auth\"",
        config.listen);
  } else {
    spdlog::warn(
        "listening beyond this machine without TLS and authentication "
        "listen={} remedy=\"set tls-certificate, tls-key and tls-client-ca\"",
        config.listen);
  }
}

// Says why the server did not start, in a line of the log if programs read it.
int CannotStart(const Config& config, const absl::Status& status) {
  if (config.log_format != "json") return Fail(status, kExitCannotStart);
  spdlog::critical("the server cannot start error=\"{}\"",
                   std::string(status.message()));
  return kExitCannotStart;
}

int Run(const Config& config) {
  const sigset_t signals = BlockSignals();
  SetUpLog(config);
  WarnAboutListening(config);
  RaiseLimits();
  auto server = Server::Start(config, {GPUPOOL_VERSION, kCommit}, StopIsAsked);
  if (absl::IsCancelled(server.status()) && StopIsAsked()) {
    spdlog::info("stopped before the start was done");
    return 0;
  }
  if (!server.ok()) return CannotStart(config, server.status());
  // Detached, since it may wait in sigwait for ever. It ends with the process.
  std::thread(WatchSignals, signals, server->get()).detach();
  (*server)->WaitForStop();
  (*server)->Drain();
  server->reset();
  spdlog::info("stopped");
  spdlog::shutdown();
  return 0;
}

std::string Database(const Config& config) {
  return config.state_dir + "/gpupool.db";
}

// Prints the report of --check. Returns 0 only for a sound database.
int Check(const Config& config) {
  const auto report = CheckDatabase(Database(config));
  if (!report.ok()) {
    return Fail(report.status(), absl::IsDataLoss(report.status())
                                     ? kExitDamaged
                                     : kExitCannotStart);
  }
  std::printf("%s has schema %u\n", Database(config).c_str(), report->schema);
  for (const auto& [table, rows] : report->rows) {
    std::printf("  %-12s %12lu rows\n", table.c_str(), rows);
  }
  for (const std::string& problem : report->problems) {
    std::printf("  %s\n", problem.c_str());
  }
  std::printf(report->problems.empty()
                  ? "nothing is wrong\n"
                  : "damaged: restore the state folder from a backup\n");
  return report->problems.empty() ? 0 : kExitDamaged;
}

// Returns the code, or that of a failure when standard output was not written.
int Written(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs(
      "gpupoold: the output cannot be written; check whether its disk is "
      "full\n",
      stderr);
  return code == 0 ? kExitUnwritten : code;
}

int BackUp(const Config& config, const std::string& to) {
  const absl::Status copied = BackUpDatabase(Database(config), to);
  return copied.ok() ? 0 : Fail(copied, kExitCannotStart);
}

int Main(int argc, char** argv) {
  // Debian's Abseil checks the order of locks at every lock, and ends the
  // process at a possible deadlock. Only tests keep that check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Other users must not read what the process writes: jobs, digests of tokens.
  umask(0077);
  const auto line = ParseCommandLine(argc, argv, GPUPOOL_VERSION);
  if (!line.ok()) return Fail(line.status(), kExitUsage);
  if (line->answer.has_value()) {
    std::fputs(line->answer->c_str(), stdout);
    return Written(0);
  }
  if (line->check) return Written(Check(line->config));
  if (!line->backup.empty()) return BackUp(line->config, line->backup);
  return Run(line->config);
}

}  // namespace
}  // namespace gpupool::server

int main(int argc, char** argv) { return gpupool::server::Main(argc, argv); }
