#include "client/cli/command/profile_report.h"

#include <ostream>

#include "absl/status/statusor.h"
#include "client/cli/output/profile_trace.h"
#include "client/cli/output/profile_view.h"
#include "client/files/partial_file.h"
#include "client/text/text_file.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostTraceBytes = size_t{1} << 30;

}  // namespace

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
  if (files.flame.empty()) return absl::OkStatus();
  return WriteWholeFile(files.flame, FlamePicture(*trace));
}

}  // namespace gpupool::client
