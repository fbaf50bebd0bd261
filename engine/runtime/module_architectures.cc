#include "engine/runtime/module_architectures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace gpupool::engine {
namespace {

std::string Dotted(int capability) {
  return absl::StrCat(capability / 10, ".", capability % 10);
}

std::string Listed(const std::vector<int>& capabilities) {
  return absl::StrJoin(capabilities, ", ", [](std::string* out, int each) {
    absl::StrAppend(out, Dotted(each));
  });
}

// Returns what to do about a GPU without kernels.
std::string Remedy(int capability) {
  if (capability < kOldestCapability) {
    return absl::StrCat("gpupool needs ", Dotted(kOldestCapability),
                        " or later; use another GPU or --devices cpu:N");
  }
  return absl::StrCat("build it with -DGPUPOOL_CUDA_ARCHITECTURES=", capability,
                      ", or without that option for all GPUs");
}

}  // namespace

std::optional<int> ParseCapability(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('.', 1));
  int major = 0, minor = 0;
  // The minor number has one digit, so major * 10 + minor is unique.
  if (parts.first.size() > 3 || parts.second.size() != 1 ||
      !absl::SimpleAtoi(parts.first, &major) ||
      !absl::SimpleAtoi(parts.second, &minor) || major < 1 || minor < 0) {
    return std::nullopt;
  }
  return major * 10 + minor;
}

std::string ToText(const ModuleArchitectures& architectures) {
  const std::string code = Listed(architectures.machine_code);
  if (architectures.ptx.empty()) return code.empty() ? "nothing" : code;
  return absl::StrCat(code, code.empty() ? "" : ", and ",
                      Listed(architectures.ptx), " as PTX");
}

bool HasMachineCode(const ModuleArchitectures& architectures, int capability) {
  const std::vector<int>& codes = architectures.machine_code;
  return std::any_of(codes.begin(), codes.end(), [&](int code) {
    return code / 10 == capability / 10 && code <= capability;
  });
}

bool RunsOn(const ModuleArchitectures& architectures, int capability) {
  const std::vector<int>& ptx = architectures.ptx;
  return HasMachineCode(architectures, capability) ||
         std::any_of(ptx.begin(), ptx.end(),
                     [&](int earlier) { return earlier <= capability; });
}

absl::Status CheckArchitecture(const ModuleArchitectures& architectures,
                               const DeviceFacts& facts) {
  const std::optional<int> capability =
      ParseCapability(facts.compute_capability);
  if (!capability.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the driver says that the compute capability of ",
                     facts.name, " is \"", facts.compute_capability,
                     "\", which is none; update the NVIDIA driver"));
  }
  if (RunsOn(architectures, *capability)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      facts.name, " has compute capability ", facts.compute_capability,
      "; this libgpupool_cuda.so has kernels for ", ToText(architectures), "; ",
      Remedy(*capability)));
}

}  // namespace gpupool::engine
