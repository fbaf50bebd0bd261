#include <gtest/gtest.h>

#include "server/worker/doctor/judge.h"
#include "tests/server/worker/doctor/judge_cases.h"

namespace gpupool::server {
namespace {

void Fail(DoctorFacts& facts, int code) {
  facts.driver.code = code;
  facts.driver.call = "cuInit";
  facts.driver.gpus.clear();
  facts.nvml.gpus.clear();
}

// Removes the library and nothing else.
void LoseLibrary(DoctorFacts& facts) {
  const HostFacts host = facts.host;
  const ModuleSurvey module = facts.module;
  facts = MachineWithoutGpu();
  facts.host = host;
  facts.module = module;
}

void EnterContainer(DoctorFacts& facts) { facts.host.container = "docker"; }

// Puts NVIDIA's driver on the host, and none of it into the container.
void HideHost(DoctorFacts& facts) {
  LoseLibrary(facts);
  EnterContainer(facts);
  facts.host.gpu_files.clear();
}

std::vector<JudgeCase> LibraryIsMissing() {
  return {
      {"driver.none",
       [](DoctorFacts& facts) {
         const ModuleSurvey module = facts.module;
         facts = MachineWithoutGpu();
         facts.module = module;
       },
       "virtual CPU devices", "580"},
      {"driver.not_installed",
       [](DoctorFacts& facts) {
         LoseLibrary(facts);
         facts.host.kernel_module = false;
       },
       "2 NVIDIA GPUs", "cuda-drivers"},
      {"driver.libcuda_missing", LoseLibrary, "580.65.06", "libcuda1"},
      {"driver.libcuda_broken",
       [](DoctorFacts& facts) {
         LoseLibrary(facts);
         facts.driver.load_error =
             "libnvidia-gpucomp.so.580: cannot open shared object file";
       },
       "libnvidia-gpucomp"},
      {"driver.libcuda_broken",
       [](DoctorFacts& facts) {
         LoseLibrary(facts);
         facts.driver.load_error =
             "libcuda.so.1 cannot be loaded from where the system keeps "
             "libraries: /a/libcuda.so.1: file too short";
       },
       "libcuda.so.1 cannot be loaded: /a/libcuda.so.1: file too short"},
      {"driver.no_version",
       [](DoctorFacts& facts) { facts.driver.version = 0; },
       "580.65.06 does not tell which CUDA it runs", "580 or later"},
      {"container.no_gpus", HideHost, "docker", "--gpus all"},
      {"container.no_gpus_asked",
       [](DoctorFacts& facts) {
         HideHost(facts);
         facts.host.environment["NVIDIA_VISIBLE_DEVICES"] = "void";
       },
       "void"},
      {"container.no_compute",
       [](DoctorFacts& facts) {
         HideHost(facts);
         facts.host.environment["NVIDIA_DRIVER_CAPABILITIES"] = "utility";
       },
       "\"utility\"", "compute,utility"},
      {"container.libcuda_missing",
       [](DoctorFacts& facts) {
         LoseLibrary(facts);
         EnterContainer(facts);
       },
       "", "--gpus all"},
  };
}

std::vector<JudgeCase> KernelSideFails() {
  return {
      {"driver.kernel_module_missing",
       [](DoctorFacts& facts) {
         Fail(facts, 100);
         facts.host.kernel_module = false;
       },
       "", "modprobe nvidia"},
      {"driver.no_gpu_behind_it",
       [](DoctorFacts& facts) {
         Fail(facts, 100);
         facts.host.kernel_module = false;
         facts.host.pci_gpus = 0;
       }},
      {"driver.device_files_missing",
       [](DoctorFacts& facts) {
         Fail(facts, 999);
         facts.host.memory_file = false;
       },
       "/dev/nvidia-uvm", "nvidia-modprobe"},
      {"driver.device_files_missing",
       [](DoctorFacts& facts) {
         Fail(facts, 100);
         facts.host.control_file = false;
       },
       "/dev/nvidiactl"},
      {"container.device_files_missing",
       [](DoctorFacts& facts) {
         Fail(facts, 100);
         EnterContainer(facts);
         facts.host.gpu_files.clear();
       },
       "/dev/nvidia0"},
      {"container.no_gpus",
       [](DoctorFacts& facts) {
         Fail(facts, 804);
         EnterContainer(facts);
         facts.host.gpu_files.clear();
         facts.host.control_file = false;
       },
       "docker"},
      {"driver.no_permission",
       [](DoctorFacts& facts) {
         Fail(facts, 100);
         facts.host.locked_files = {"/dev/nvidia0", "/dev/nvidiactl"};
       },
       "/dev/nvidia0, /dev/nvidiactl", "group"},
  };
}

std::vector<JudgeCase> DriverFails() {
  const auto failing = [](int code) {
    return [code](DoctorFacts& facts) { Fail(facts, code); };
  };
  return {
      {"driver.stub_library", failing(34), "/usr/lib/libcuda.so.1", "stubs"},
      {"driver.mismatch", failing(803), "580.65.06", "restart"},
      {"driver.mismatch", [](DoctorFacts& facts) { facts.nvml.code = 18; }},
      {"driver.compat_not_supported", failing(804), "cuInit says 804"},
      {"driver.fabric_not_ready", failing(802), "", "fabricmanager"},
      {"driver.unknown_error", failing(999), "cuInit", "nvidia_uvm"},
      {"driver.failed", failing(304), "304", "dmesg"},
      {"driver.too_old",
       [](DoctorFacts& facts) {
         Fail(facts, 36);
         facts.driver.version = 12040;
         facts.nvml.driver_version = "550.54.15";
       },
       "550.54.15 runs CUDA 12.4; gpupool's module needs CUDA 13.0",
       "580 or later"},
      // A driver that starts may still be too old for the module.
      {"driver.too_old",
       [](DoctorFacts& facts) { facts.driver.version = 12080; }, "12.8"},
      {"driver.crashes",
       [](DoctorFacts& facts) {
         facts.driver = {};
         facts.driver_asked = absl::AbortedError("killed by signal 11");
         facts.module_asked = facts.driver_asked;
       },
       "signal 11"},
      {"driver.hangs",
       [](DoctorFacts& facts) {
         facts.driver = {};
         facts.driver_asked = absl::DeadlineExceededError("no answer in 30s");
         facts.module_asked = facts.driver_asked;
       },
       "30s"},
      {"gpu.none", failing(100), "", "lspci"},
      {"gpu.none", [](DoctorFacts& facts) { facts.driver.gpus.clear(); }},
      {"gpu.all_hidden",
       [](DoctorFacts& facts) {
         Fail(facts, 100);
         facts.host.environment["CUDA_VISIBLE_DEVICES"] = "";
       },
       "CUDA_VISIBLE_DEVICES=\"\""},
      {"driver.wsl",
       [](DoctorFacts& facts) {
         facts.host.wsl = true;
         facts.host.wsl_file = true;
       }},
      {"driver.wsl_too_old", [](DoctorFacts& facts) { facts.host.wsl = true; },
       "/dev/dxg", "wsl --update", /*alone=*/false},
  };
}

}  // namespace

std::vector<JudgeCase> DriverCases() {
  std::vector<JudgeCase> cases = {
      {"driver.ok", [](DoctorFacts&) {},
       "NVIDIA driver 580.65.06, which runs CUDA 13.0"},
      {"container.none", [](DoctorFacts&) {}},
      {"container.ok", EnterContainer, "docker"},
      {"container.no_utility",
       [](DoctorFacts& facts) {
         EnterContainer(facts);
         facts.host.environment["NVIDIA_DRIVER_CAPABILITIES"] = "compute";
       },
       "\"compute\"", "compute,utility"},
  };
  for (const auto& more :
       {LibraryIsMissing(), KernelSideFails(), DriverFails()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

namespace {

TEST(JudgeDriverTest, AllCapabilitiesLeaveNothingOut) {
  for (const char* value : {"all", "compute,utility", "utility,compute", ""}) {
    DoctorFacts facts = HealthyMachine();
    EnterContainer(facts);
    facts.host.environment["NVIDIA_DRIVER_CAPABILITIES"] = value;
    Findings findings;
    JudgeContainer(facts, findings);
    EXPECT_EQ(findings.worst(), Severity::kOk) << value;
  }
}

// A sandbox may hide /proc/driver and the device files of a driver that works.
TEST(JudgeDriverTest, ADriverThatWorksNeedsNoProof) {
  DoctorFacts facts = HealthyMachine();
  facts.host = {};
  Findings findings;
  JudgeDriver(facts, findings);
  EXPECT_EQ(findings.worst(), Severity::kOk);
}

}  // namespace
}  // namespace gpupool::server
