#include "client/cli/models/model_view.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/output/job_view.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

// Returns the version's device. If it has none, returns the device that it
// waits for.
std::string DeviceText(const v1::ModelVersion& version) {
  const bool has_no_place =
      version.device().empty() && version.state() != v1::UNLOADED;
  return has_no_place && !version.wanted_device().empty()
             ? absl::StrCat("(", version.wanted_device(), ")")
             : version.device();
}

}  // namespace

std::string VersionStateText(v1::VersionState state) {
  return absl::StrReplaceAll(
      absl::AsciiStrToLower(v1::VersionState_Name(state)), {{"_", " "}});
}

void PrintVersions(const Stream& stream, bool headers,
                   const v1::ListModelsResponse& models, absl::Time now) {
  Table table({{"MODEL"},
               {"VERSION", Table::kRight},
               {"STATE"},
               {"DEVICE"},
               {"JOB", Table::kRight},
               {"STEP", Table::kRight},
               {"PARAMETERS", Table::kRight},
               {"MEMORY", Table::kRight},
               {"AGE", Table::kRight},
               {"ERROR"}});
  for (const v1::Model& model : models.models()) {
    for (const v1::ModelVersion& version : model.versions()) {
      const uint64_t memory = version.plan().inference().peak();
      table.AddRow({version.model(), absl::StrCat(version.version()),
                    VersionStateText(version.state()), DeviceText(version),
                    version.job_id() > 0 ? absl::StrCat(version.job_id()) : "",
                    version.job_id() > 0 ? absl::StrCat(version.step()) : "",
                    GroupDigits(version.plan().parameters()),
                    memory > 0 ? FormatBytes(memory) : "",
                    Age(version.has_create_time(), version.create_time(), now),
                    version.error()});
    }
  }
  table.Print(stream, headers);
}

std::vector<std::string> IdleVersions(const v1::Model& model) {
  const v1::ModelVersion* newest = nullptr;
  for (const v1::ModelVersion& version : model.versions()) {
    if (version.state() != v1::READY) continue;
    if (newest == nullptr || newest->version() < version.version()) {
      newest = &version;
    }
  }
  std::vector<std::string> texts;
  for (const v1::ModelVersion& version : model.versions()) {
    if (version.state() != v1::READY || &version == newest) continue;
    const uint64_t memory = version.plan().inference().peak();
    const std::string name =
        absl::StrCat(version.model(), "/", version.version());
    texts.push_back(absl::StrCat(
        name, " keeps ", memory > 0 ? FormatBytes(memory) : "memory", " on ",
        version.device(),
        ", but only requests that name it get it: the others "
        "go to ",
        newest->model(), "/", newest->version(), "; `gpupool models unload ",
        name, "` frees the memory"));
  }
  return texts;
}

void PrintVersion(const Stream& stream, bool headers,
                  const v1::ModelVersion& version, absl::Time now) {
  v1::ListModelsResponse one;
  *one.add_models()->add_versions() = version;
  PrintVersions(stream, headers, one, now);
}

absl::StatusOr<VersionName> ParseVersionName(const std::string& text) {
  const size_t slash = text.rfind('/');
  if (slash == std::string::npos) return VersionName{text, 0};
  VersionName name{text.substr(0, slash), 0};
  if (name.model.empty() ||
      !absl::SimpleAtoi(text.substr(slash + 1), &name.version) ||
      name.version == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' does not name a model version; write MODEL or "
                     "MODEL/VERSION, for example digits/3"));
  }
  return name;
}

int ReportVersion(Context& context, const v1::ModelVersion& version) {
  context.Print(version, [&] {
    PrintVersion(context.out(), context.headers(), version, absl::Now());
  });
  if (version.state() != v1::LOAD_FAILED) return kOk;
  return context.Fail(absl::ResourceExhaustedError(
      absl::StrCat(version.model(), " version ", version.version(),
                   " cannot be loaded: ", version.error())));
}

}  // namespace gpupool::client
