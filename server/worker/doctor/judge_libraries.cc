#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "server/worker/doctor/judge.h"

namespace gpupool::server {
namespace {

using engine::cuda::LibraryState;
using engine::cuda::SurveyedLibrary;

struct Use {
  absl::string_view name;  // of the library
  const char* without;     // effect of its absence
  const char* package;
};

constexpr Use kUses[] = {
    {"cuBLASLt", "matrix products run portable kernels, many times slower",
     "libcublas-13-0 (or the Python package nvidia-cublas)"},
    {"cuDNN",
     "convolutions, attention and batch norm run portable kernels, many times "
     "slower",
     "libcudnn9-cuda-13 (or the Python package nvidia-cudnn-cu13)"},
    {"NVRTC", "cuDNN's attention and batch norm give way to portable kernels",
     "cuda-nvrtc-13-0 (or the Python package nvidia-cuda-nvrtc)"},
    {"NCCL", "jobs on several GPUs fail",
     "libnccl2 (or the Python package nvidia-nccl-cu13)"},
    {"CUPTI", "profiles are timed by events, less exactly",
     "cuda-cupti-13-0 (or the Python package nvidia-cuda-cupti)"},
};

const Use& UseOf(absl::string_view name) {
  for (const Use& use : kUses) {
    if (use.name == name) return use;
  }
  return kUses[0];
}

// Returns whether this machine can do without the library.
bool IsOptional(const DoctorFacts& facts, const SurveyedLibrary& library) {
  return library.name == "CUPTI" ||
         (library.name == "NCCL" && facts.driver.gpus.size() < 2);
}

void JudgeLibrary(const DoctorFacts& facts, const SurveyedLibrary& library,
                  Findings& findings) {
  const Use& use = UseOf(library.name);
  const std::string& version = library.version;
  switch (library.state) {
    case LibraryState::kFound:
      return findings.Add(
          "library.ok",
          {library.name, version.empty() ? "" : absl::StrCat(" ", version),
           library.path});
    case LibraryState::kMissing:
      return findings.Add(
          IsOptional(facts, library) ? "library.optional_missing"
                                     : "library.missing",
          {library.name, library.file, use.without, use.package});
    case LibraryState::kOtherMajor:
      return findings.Add("library.other_major",
                          {library.name, library.detail, library.file,
                           use.without, use.package});
    case LibraryState::kOtherCuda:
      return findings.Add(
          "library.other_cuda",
          {library.name, version, library.detail, use.without, use.package});
    case LibraryState::kTooOld:
      return findings.Add(
          "library.too_old",
          {library.name, version, library.detail, use.without, use.package});
    case LibraryState::kPartMissing:
      return findings.Add(
          "library.part_missing",
          {library.name, version, library.detail, use.without, use.package});
    case LibraryState::kFatal:
      return findings.Add(
          "library.fatal",
          {library.name, library.path.empty() ? library.file : library.path,
           library.detail, use.package});
    case LibraryState::kUnusable:
      return findings.Add("library.unusable",
                          {library.name, library.detail, use.package});
  }
}

void JudgeNvml(const DoctorFacts& facts, Findings& findings) {
  const auto& nvml = facts.nvml;
  if (!facts.nvml_asked.ok()) {
    findings.Add("library.nvml_failed",
                 {std::string(facts.nvml_asked.message())});
  } else if (!nvml.loaded) {
    findings.Add("library.nvml_missing");
  } else if (nvml.code != 0 && nvml.code != kNvmlMismatch) {
    findings.Add("library.nvml_failed",
                 {nvml.code_text.empty() ? absl::StrCat("code ", nvml.code)
                                         : nvml.code_text});
  }
}

}  // namespace

void JudgeLibraries(const DoctorFacts& facts, Findings& findings) {
  for (const std::string& error : facts.folder_errors) {
    findings.Add("library.no_folder", {error});
  }
  // Without a working GPU nobody needs them.
  if (facts.driver.gpus.empty()) return;
  JudgeNvml(facts, findings);
  for (const SurveyedLibrary& library : facts.libraries) {
    JudgeLibrary(facts, library, findings);
    for (const std::string& passed : library.passed_over) {
      findings.Add("library.passed_over", {library.name, library.path, passed,
                                           UseOf(library.name).package});
    }
  }
}

void JudgeModule(const DoctorFacts& facts, Findings& findings) {
  const ModuleSurvey& module = facts.module;
  const bool gpus = !facts.driver.gpus.empty();
  if (!facts.module_asked.ok()) {
    // Where the driver hangs or dies, so does the module that asks it.
    if (!facts.driver_asked.ok()) return;
    findings.Add("module.crashes", {std::string(facts.module_asked.message())});
  } else if (module.path.empty()) {
    findings.Add(gpus ? "module.missing" : "module.absent", {module.folders});
  } else if (!module.load_error.empty()) {
    findings.Add("module.unusable", {module.load_error});
  } else {
    findings.Add("module.ok",
                 {module.path, engine::ToText(module.architectures)});
    if (gpus && !module.count_error.empty()) {
      findings.Add("module.fails", {module.count_error});
    }
  }
}

}  // namespace gpupool::server
