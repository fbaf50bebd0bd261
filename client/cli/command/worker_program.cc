#include "client/cli/command/worker_program.h"

#include <CLI/App.hpp>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

constexpr char kNameWorker[] =
    "; install gpupool-worker beside gpupool, or name it with --worker-binary";

}  // namespace

void AddWorkerBinary(CLI::App& verb, std::string& file) {
  verb.add_option("--worker-binary", file,
                  "The worker binary to run (default: beside this program)")
      ->type_name("FILE");
}

std::string ProgramBesideThis(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}

std::string WorkerBinary(const std::string& given) {
  return given.empty() ? ProgramBesideThis("gpupool-worker") : given;
}

absl::StatusOr<ProgramOutput> RunWorkerCommand(
    const Context& context, const std::vector<std::string>& arguments,
    absl::Duration limit) {
  auto output = RunProgram(arguments, limit, context.stop());
  if (output.ok() || absl::IsCancelled(output.status()) ||
      absl::IsDeadlineExceeded(output.status())) {
    return output;
  }
  return absl::Status(output.status().code(),
                      absl::StrCat(output.status().message(), kNameWorker));
}

std::string EndText(const ProgramOutput& output) {
  if (output.signal == 0) {
    return absl::StrCat("ended with exit code ", output.exit_code);
  }
  return absl::StrCat("was killed by signal ", output.signal, " (",
                      ::strsignal(output.signal), ")");
}

}  // namespace gpupool::client
