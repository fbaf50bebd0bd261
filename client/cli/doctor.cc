// gpupool doctor: what on this machine keeps gpupool from its GPUs. Asks no
// server: the worker binary looks, since it is what loads drivers.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <ostream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/doctor_view.h"
#include "client/cli/exit_code.h"
#include "client/cli/program_output.h"
#include "client/cli/verbs.h"
#include "client/server_defaults.h"

namespace gpupool::client {
namespace {

// More than the worker gives all of its own questions.
constexpr absl::Duration kLimit = absl::Seconds(200);
constexpr int kWorkerUsage = 2;

struct DoctorOptions {
  std::string worker_binary;
  std::string cuda_lib_dir;
  std::string state_dir = kDefaultStateDir;
  std::string ports = DefaultPorts();
  bool expect_gpu = false;
};

std::string WorkerBinary(const DoctorOptions& options) {
  if (!options.worker_binary.empty()) return options.worker_binary;
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "gpupool-worker").string();
}

std::vector<std::string> Arguments(const DoctorOptions& options) {
  std::vector<std::string> arguments = {
      WorkerBinary(options), "doctor",  "--state-dir",
      options.state_dir,     "--ports", options.ports};
  if (!options.cuda_lib_dir.empty()) {
    arguments.insert(arguments.end(), {"--cuda-lib-dir", options.cuda_lib_dir});
  }
  if (options.expect_gpu) arguments.emplace_back("--expect-gpu");
  return arguments;
}

int Doctor(Context& context, const DoctorOptions& options) {
  const auto output = RunProgram(Arguments(options), kLimit, context.stop());
  if (absl::IsCancelled(output.status())) return kInterrupted;
  if (absl::IsNotFound(output.status())) {
    return context.Fail(absl::NotFoundError(
        absl::StrCat(output.status().message(),
                     "; install gpupool-worker beside gpupool, or name it "
                     "with --worker-binary")));
  }
  if (!output.ok()) return context.Fail(output.status());
  // It has said itself what is wrong with its arguments.
  if (output->exit_code == kWorkerUsage) return kUsage;
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
  CLI::App* verb = AddVerb(
      app, "doctor",
      "Say what on this machine is wrong for gpupool and its GPUs, and what to "
      "do about it. No server is asked.",
      "  gpupool doctor\n"
      "  gpupool doctor --expect-gpu -o json");
  verb->add_flag("--expect-gpu", options->expect_gpu,
                 "Having no GPU to use is a failure");
  verb->add_option("--cuda-lib-dir", options->cuda_lib_dir,
                   "As gpupoold's: folders of NVIDIA's libraries, with colons "
                   "between them")
      ->type_name("DIR");
  verb->add_option(
          "--state-dir", options->state_dir,
          absl::StrCat("As gpupoold's (default: ", kDefaultStateDir, ")"))
      ->type_name("DIR");
  verb->add_option("--ports", options->ports,
                   absl::StrCat("gpupoold's gRPC, HTTP and metrics port "
                                "(default: ",
                                DefaultPorts(), ")"))
      ->type_name("PORTS");
  verb->add_option("--worker-binary", options->worker_binary,
                   "The worker that looks (default: beside this program)")
      ->type_name("FILE");
  invocation.On(verb, [options](Context& c) { return Doctor(c, *options); });
}

}  // namespace gpupool::client
