#include "client/cli/command/profile_report.h"

#include <CLI/App.hpp>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output/profile_memory_view.h"
#include "client/cli/output/profile_trace.h"
#include "client/cli/output/profile_view.h"
#include "client/files/partial_file.h"
#include "client/text/text_file.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostTraceBytes = size_t{1} << 30;

// Returns the file that a name leads to, which need not exist.
std::filesystem::path FileOf(const std::string& name) {
  std::error_code error;
  const auto file = std::filesystem::weakly_canonical(
      std::filesystem::absolute(name, error), error);
  return error ? std::filesystem::path(name) : file;
}

}  // namespace

void AddPictureOptions(CLI::App& verb, ProfileFiles& files) {
  verb.add_option("--flame", files.flame,
                  "Also write a flame graph (SVG) to this file")
      ->type_name("FILE");
  verb.add_option("--memory", files.memory,
                  "Also write a picture (SVG) of planned and measured memory "
                  "along the step to this file")
      ->type_name("FILE");
}

absl::Status CheckProfileFiles(const ProfileFiles& files) {
  struct NamedFile {
    const char* option;
    const std::string& name;
  };
  const NamedFile named[] = {{"--file", files.trace},
                             {"--flame", files.flame},
                             {"--memory", files.memory}};
  for (size_t i = 1; i < std::size(named); ++i) {
    if (named[i].name.empty()) continue;
    for (size_t j = 0; j < i; ++j) {
      if (FileOf(named[j].name) != FileOf(named[i].name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(named[j].option, " and ", named[i].option, " both name ",
                       named[i].name, "; name different files"));
    }
  }
  return absl::OkStatus();
}

absl::Status ShowProfile(Context& context, const ProfileFiles& files) {
  const absl::StatusOr<std::string> text =
      ReadTextFile(files.trace, kMostTraceBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<ProfileTrace> trace = ParseProfileTrace(*text);
  if (!trace.ok()) return trace.status();
  if (context.options().output == OutputFormat::kTable) {
    *context.out().stream << "\n";
    PrintProfile(context.out(), *trace, context.headers());
  }
  absl::Status written;
  if (!files.flame.empty()) {
    written = WriteWholeFile(files.flame, FlamePicture(*trace));
  }
  if (!written.ok() || files.memory.empty()) return written;
  if (trace->memory.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.trace,
                     " has no memory: it was recorded by an older "
                     "worker; leave out --memory"));
  }
  return WriteWholeFile(files.memory, ProfileMemoryPicture(trace->memory));
}

}  // namespace gpupool::client
