#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/worker/doctor/judge.h"

namespace gpupool::server {
namespace {

// CUDA version that the module's runtime needs, and the first driver with it.
constexpr int kNeededCuda = 13000;
constexpr char kNeededDriver[] = "580";

// Error codes of the CUDA driver.
constexpr int kStubLibrary = 34;
constexpr int kNoDevice = 100;
constexpr int kNotReady = 802;
constexpr int kMismatch = 803;
constexpr int kCompatNotSupported = 804;
constexpr int kUnknown = 999;

const std::string* Variable(const HostFacts& host, const char* name) {
  const auto found = host.environment.find(name);
  return found == host.environment.end() ? nullptr : &found->second;
}

// Returns whether NVIDIA_DRIVER_CAPABILITIES is set without `capability`.
bool LeavesOut(const HostFacts& host, absl::string_view capability) {
  const std::string* const value = Variable(host, "NVIDIA_DRIVER_CAPABILITIES");
  if (value == nullptr || value->empty()) return false;
  for (absl::string_view word : absl::StrSplit(*value, ',')) {
    if (word == "all" || word == capability) return false;
  }
  return true;
}

// Judges a driver that the container's host has but the container lacks.
void JudgeContainerWithout(const HostFacts& host, Findings& findings) {
  const std::string* const visible = Variable(host, "NVIDIA_VISIBLE_DEVICES");
  if (LeavesOut(host, "compute")) {
    findings.Add("container.no_compute",
                 {host.environment.at("NVIDIA_DRIVER_CAPABILITIES")});
  } else if (visible != nullptr &&
             (*visible == "void" || *visible == "none" || visible->empty())) {
    findings.Add("container.no_gpus_asked", {*visible});
  } else if (host.gpu_files.empty()) {
    findings.Add("container.no_gpus", {host.container});
  } else {
    findings.Add("container.libcuda_missing", {host.container});
  }
}

// Returns the error without "libcuda.so.1 cannot be loaded from ...: ".
std::string ReasonIn(const std::string& error) {
  const size_t colon = error.find(": ");
  return absl::StrContains(error.substr(0, colon), "cannot be loaded")
             ? error.substr(colon + 2)
             : error;
}

void JudgeMissingLibrary(const DoctorFacts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  // The linker names the first missing file, which may be one that libcuda
  // needs.
  if (!absl::StrContains(facts.driver.load_error,
                         "libcuda.so.1: cannot open shared object file")) {
    findings.Add("driver.libcuda_broken", {ReasonIn(facts.driver.load_error)});
  } else if (host.kernel_module && !host.container.empty()) {
    JudgeContainerWithout(host, findings);
  } else if (host.kernel_module) {
    findings.Add("driver.libcuda_missing", {host.kernel_module_version});
  } else if (host.pci_gpus > 0) {
    findings.Add("driver.not_installed", {absl::StrCat(host.pci_gpus)});
  } else {
    findings.Add("driver.none");
  }
}

// Returns the first missing file that the driver needs to start, or "".
std::string MissingFile(const HostFacts& host) {
  if (!host.control_file) return "/dev/nvidiactl";
  if (host.gpu_files.empty()) return "/dev/nvidia0";
  return host.memory_file ? "" : "/dev/nvidia-uvm";
}

// Adds the kernel side's causes of a failing driver. Returns whether there was
// one.
bool JudgeKernelSide(const HostFacts& host, Findings& findings) {
  if (host.wsl) return false;
  if (!host.kernel_module) {
    findings.Add(host.pci_gpus > 0 ? "driver.kernel_module_missing"
                                   : "driver.no_gpu_behind_it",
                 {"libcuda.so.1"});
    return true;
  }
  const std::string missing = MissingFile(host);
  if (!host.container.empty() && !host.control_file && host.gpu_files.empty()) {
    // The library belongs to the image, for example to a compatibility package.
    findings.Add("container.no_gpus", {host.container});
  } else if (!missing.empty() && !host.container.empty()) {
    findings.Add("container.device_files_missing", {host.container, missing});
  } else if (!missing.empty()) {
    findings.Add("driver.device_files_missing", {missing});
  } else if (!host.locked_files.empty()) {
    findings.Add("driver.no_permission",
                 {absl::StrJoin(host.locked_files, ", ")});
  } else {
    return false;
  }
  return true;
}

std::string DriverVersion(const DoctorFacts& facts) {
  if (!facts.nvml.driver_version.empty()) return facts.nvml.driver_version;
  return facts.host.kernel_module_version.empty()
             ? "of unknown version"
             : facts.host.kernel_module_version;
}

void JudgeNoDevice(const DoctorFacts& facts, Findings& findings) {
  const std::string* const visible =
      Variable(facts.host, "CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) {
    findings.Add("gpu.all_hidden", {*visible});
  } else {
    findings.Add("gpu.none");
  }
}

void JudgeCode(const DoctorFacts& facts, Findings& findings) {
  const int code = facts.driver.code;
  const std::string text = absl::StrCat(facts.driver.call, " says ", code);
  switch (code) {
    case kNoDevice:
      return JudgeNoDevice(facts, findings);
    case kNotReady:
      return findings.Add("driver.fabric_not_ready", {text});
    case kCompatNotSupported:
      return findings.Add("driver.compat_not_supported", {text});
    case kUnknown:
      return findings.Add("driver.unknown_error", {facts.driver.call});
    default:
      return findings.Add("driver.failed",
                          {facts.driver.call, absl::StrCat(code)});
  }
}

void JudgeLoaded(const DoctorFacts& facts, Findings& findings) {
  const engine::cuda::DriverSurvey& driver = facts.driver;
  const bool failed = !driver.call.empty();
  if (driver.code == kStubLibrary) {
    findings.Add("driver.stub_library", {driver.path});
  } else if (failed && JudgeKernelSide(facts.host, findings)) {
    return;
  } else if (driver.code == kMismatch || facts.nvml.code == kNvmlMismatch) {
    findings.Add("driver.mismatch", {facts.host.kernel_module_version});
  } else if (driver.version > 0 && driver.version < kNeededCuda) {
    findings.Add("driver.too_old",
                 {DriverVersion(facts), CudaVersionText(driver.version),
                  CudaVersionText(kNeededCuda), kNeededDriver});
  } else if (failed) {
    JudgeCode(facts, findings);
  } else if (driver.gpus.empty()) {
    JudgeNoDevice(facts, findings);
  } else if (driver.version <= 0) {
    findings.Add(
        "driver.no_version",
        {DriverVersion(facts), CudaVersionText(kNeededCuda), kNeededDriver});
  } else {
    findings.Add("driver.ok",
                 {DriverVersion(facts), CudaVersionText(driver.version)});
  }
}

}  // namespace

void JudgeDriver(const DoctorFacts& facts, Findings& findings) {
  if (absl::IsDeadlineExceeded(facts.driver_asked)) {
    findings.Add("driver.hangs", {std::string(facts.driver_asked.message())});
    return;
  }
  if (!facts.driver_asked.ok()) {
    findings.Add("driver.crashes", {std::string(facts.driver_asked.message())});
    return;
  }
  if (facts.host.wsl) {
    findings.Add("driver.wsl");
    if (!facts.host.wsl_file) return findings.Add("driver.wsl_too_old");
  }
  if (facts.driver.loaded) {
    JudgeLoaded(facts, findings);
  } else {
    JudgeMissingLibrary(facts, findings);
  }
}

void JudgeContainer(const DoctorFacts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  if (host.container.empty()) {
    findings.Add("container.none");
    return;
  }
  findings.Add("container.ok", {host.container});
  if (facts.gpus_asked && host.kernel_module && LeavesOut(host, "utility")) {
    findings.Add("container.no_utility",
                 {host.environment.at("NVIDIA_DRIVER_CAPABILITIES")});
  }
}

}  // namespace gpupool::server
