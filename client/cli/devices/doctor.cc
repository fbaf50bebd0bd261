// gpupool doctor: what on this machine keeps gpupool from its GPUs. Asks no
// server. The worker binary examines the machine, because only the worker loads
// drivers.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/command/worker_program.h"
#include "client/cli/devices/doctor_view.h"
#include "client/server_defaults.h"

namespace gpupool::client {
namespace {

// Larger than the worker's limit for all of its own questions.
constexpr absl::Duration kLimit = absl::Seconds(170);
// The worker's exit codes: no failure, at least one failure, wrong arguments.
constexpr int kWorkerDone = 0;
constexpr int kWorkerFailed = 1;
constexpr int kWorkerUsage = 2;
constexpr uint32_t kMostPort = 65535;
constexpr size_t kMostPorts = 3;

struct DoctorOptions {
  std::string worker_binary;
  std::string cuda_lib_dir;
  std::string state_dir = kDefaultStateDir;
  std::string ports = DefaultPorts();
  bool expect_gpu = false;
};

std::vector<std::string> Arguments(const DoctorOptions& options) {
  std::vector<std::string> arguments = {WorkerBinary(options.worker_binary),
                                        "doctor",
                                        "--state-dir",
                                        options.state_dir,
                                        "--ports",
                                        options.ports};
  if (!options.cuda_lib_dir.empty()) {
    arguments.insert(arguments.end(), {"--cuda-lib-dir", options.cuda_lib_dir});
  }
  if (options.expect_gpu) arguments.emplace_back("--expect-gpu");
  return arguments;
}

// Passes limits to the worker that are below ours, so that it can name what
// hangs.
void AddLimits(absl::Duration limit, std::vector<std::string>& arguments) {
  const double seconds =
      std::clamp(absl::ToDoubleSeconds(limit) * 0.8, 0.1, 600.0);
  arguments.insert(
      arguments.end(),
      {"--limit-seconds", absl::StrCat(std::clamp(seconds / 3, 0.1, 30.0)),
       "--total-seconds", absl::StrCat(seconds)});
}

// Adds the remedy to the error of an examination that took too long.
absl::Status WithoutAnswer(const absl::Status& status) {
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(
      absl::StrCat(status.message(),
                   "; allow more time with --timeout, and check whether "
                   "nvidia-smi answers"));
}

// Returns an error unless the worker completed its examination.
absl::Status CheckEnd(const std::string& worker, const ProgramOutput& output) {
  if (output.signal == 0 &&
      (output.exit_code == kWorkerDone || output.exit_code == kWorkerFailed)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat(worker, " doctor ", EndText(output),
                   ", so its findings cannot be trusted; install gpupool and "
                   "gpupool-worker of one build"));
}

std::string CheckPorts(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  std::set<uint32_t> ports;
  for (const std::string& word : words) {
    uint32_t port = 0;
    if (!absl::SimpleAtoi(word, &port) || port > kMostPort) {
      return absl::StrCat("'", word, "' in '", text,
                          "' is not a port; write 0 to ", kMostPort,
                          ", with commas between them");
    }
    if (port != 0 && !ports.insert(port).second) {
      return absl::StrCat("the port ", port, " occurs twice in '", text,
                          "'; give each service its own port");
    }
  }
  if (words.size() <= kMostPorts) return "";
  return absl::StrCat("there are ", words.size(), " ports in '", text,
                      "', at most ", kMostPorts,
                      " are expected: the gRPC, HTTP and metrics port");
}

std::string CheckFolder(const std::string& text) {
  return text.empty() ? "it is empty; name a folder" : "";
}

int Doctor(Context& context, const DoctorOptions& options) {
  std::vector<std::string> arguments = Arguments(options);
  const bool own_limit = context.options().timeout_given;
  const absl::Duration limit = own_limit ? context.options().timeout : kLimit;
  if (own_limit) AddLimits(limit, arguments);
  const auto output = RunWorkerCommand(context, arguments, limit);
  if (absl::IsCancelled(output.status())) return kInterrupted;
  if (!output.ok()) return context.Fail(WithoutAnswer(output.status()));
  // The worker has printed what is wrong with its arguments.
  if (output->exit_code == kWorkerUsage) return kUsage;
  const absl::Status end = CheckEnd(arguments[0], *output);
  if (!end.ok()) return context.Fail(end);
  const auto findings = ReadFindings(output->text);
  if (!findings.ok()) return context.Fail(findings.status());
  if (context.options().output == OutputFormat::kTable) {
    PrintFindings(*findings, context.out());
  } else {
    // JSON is YAML, so one form serves both.
    *context.out().stream << FindingsJson(*findings) << "\n";
  }
  return HasFailure(*findings) ? kFailure : kOk;
}

}  // namespace

void AddDoctor(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* verb =
      AddVerb(app, "doctor",
              "Find out what keeps gpupool from using this machine's GPUs, and "
              "what to do about it. No server is asked.",
              "  gpupool doctor\n"
              "  gpupool doctor --expect-gpu -o json");
  verb->add_flag("--expect-gpu", options->expect_gpu,
                 "Report a missing GPU as a failure");
  verb->add_option(
          "--cuda-lib-dir", options->cuda_lib_dir,
          "Folders of NVIDIA's libraries, separated by colons, as for gpupoold")
      ->type_name("DIR");
  verb->add_option("--state-dir", options->state_dir,
                   absl::StrCat("gpupoold's state folder (default: ",
                                kDefaultStateDir, ")"))
      ->check(CLI::Validator(CheckFolder, ""))
      ->type_name("DIR");
  verb->add_option(
          "--ports", options->ports,
          absl::StrCat("gpupoold's gRPC, HTTP and metrics ports (default: ",
                       DefaultPorts(), ")"))
      ->check(CLI::Validator(CheckPorts, ""))
      ->type_name("PORTS");
  AddWorkerBinary(*verb, options->worker_binary);
  invocation.On(verb, [options](Context& c) { return Doctor(c, *options); });
}

}  // namespace gpupool::client
