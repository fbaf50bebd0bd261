#include "client/cli/command/profile_report.h"

#include <CLI/App.hpp>
#include <ostream>

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
