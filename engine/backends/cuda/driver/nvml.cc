#include "engine/backends/cuda/driver/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "engine/backends/cuda/driver/nvml_interface.h"
#include "engine/backends/cuda/driver/xid_catalog.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// Constants of the library's interface that only this file needs.
// The first two are NVML_ERROR_INSUFFICIENT_SIZE and NVML_ERROR_RESET_REQUIRED.
constexpr int kInsufficientSize = 7;
constexpr int kResetRequired = 16;
constexpr unsigned kGpuSensor = 0;
constexpr unsigned kMultiprocessorClock = 1;
constexpr unsigned kMemoryClock = 2;
constexpr unsigned kCorrected = 0;
// This is nvmlEventTypeXidCriticalError.
constexpr unsigned long long kXidEvents = 0x8;
constexpr size_t kMaxProcesses = 256;
constexpr unsigned kByNvlink = 2;

// Returns the link by the level at which the paths of two GPUs meet, as
// nvidia-smi names it.
const char* LevelText(unsigned level) {
  // The values are those of nvmlGpuTopologyLevel_t: 10 one PCIe switch, 20
  // several switches, 30 a host bridge, 40 a NUMA node, 50 the whole system.
  if (level <= 10) return "PIX";  // 0 means one board
  if (level <= 20) return "PXB";
  if (level <= 30) return "PHB";
  return level <= 40 ? "NODE" : "SYS";
}

}  // namespace

struct Nvml::Functions {
  struct Utilization {
    unsigned gpu;
    unsigned memory;
  };
  struct Event {
    void* device;
    unsigned long long type;
    unsigned long long data;
    unsigned gpu_instance;
    unsigned compute_instance;
  };

  ~Functions() {
    // The functions are in the library, so it is closed last.
    if (initialized) shutdown();
    if (library != nullptr) ::dlclose(library);
  }

  // Leaves functions null that old drivers lack.
  template <typename Function>
  void FindOptional(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
  }
  template <typename Function>
  absl::Status Find(const char* name, Function*& function) {
    FindOptional(name, function);
    if (function != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("the NVIDIA management library has no ", name,
                     "; install a driver of version 450 or later"));
  }
  absl::Status Load(const std::string& name);
  // Returns an empty text when the library does not tell.
  std::string LinkBetween(void* a, void* b) const;
  std::string ErrorText(int code) const {
    return error_string == nullptr ? absl::StrCat("error ", code)
                                   : std::string(error_string(code));
  }

  void* library = nullptr;
  bool initialized = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  int (*utilization)(void*, Utilization*) = nullptr;
  int (*memory)(void*, NvmlMemory*) = nullptr;
  int (*temperature)(void*, unsigned, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*power_limit)(void*, unsigned*) = nullptr;
  int (*clock)(void*, unsigned, unsigned*) = nullptr;
  int (*ecc)(void*, unsigned, unsigned, unsigned long long*) = nullptr;
  int (*processes)(void*, unsigned*, NvmlProcessInfo*) = nullptr;
  int (*create_events)(void**) = nullptr;
  int (*free_events)(void*) = nullptr;
  int (*register_events)(void*, unsigned long long, void*) = nullptr;
  int (*wait_events)(void*, Event*, unsigned) = nullptr;
  int (*peer_status)(void*, void*, unsigned, unsigned*) = nullptr;
  int (*common_ancestor)(void*, void*, unsigned*) = nullptr;
};

std::string Nvml::Functions::LinkBetween(void* a, void* b) const {
  unsigned answer = 0;
  // The status 0 means that NVLink works between them.
  if (peer_status != nullptr &&
      peer_status(a, b, kByNvlink, &answer) == kNvmlSuccess && answer == 0) {
    return "NVL";
  }
  if (common_ancestor == nullptr ||
      common_ancestor(a, b, &answer) != kNvmlSuccess) {
    return "";
  }
  return LevelText(answer);
}

absl::Status Nvml::Functions::Load(const std::string& name) {
  library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    return absl::NotFoundError(
        absl::StrCat("the NVIDIA management library cannot be loaded: ",
                     error == nullptr ? name : error));
  }
  RETURN_IF_ERROR(Find("nvmlInit_v2", init));
  RETURN_IF_ERROR(Find("nvmlShutdown", shutdown));
  RETURN_IF_ERROR(Find("nvmlDeviceGetHandleByUUID", by_uuid));
  FindOptional("nvmlErrorString", error_string);
  FindOptional("nvmlSystemGetDriverVersion", driver_version);
  FindOptional("nvmlDeviceGetUtilizationRates", utilization);
  FindOptional("nvmlDeviceGetMemoryInfo", memory);
  FindOptional("nvmlDeviceGetTemperature", temperature);
  FindOptional("nvmlDeviceGetPowerUsage", power);
  FindOptional("nvmlDeviceGetEnforcedPowerLimit", power_limit);
  FindOptional("nvmlDeviceGetClockInfo", clock);
  FindOptional("nvmlDeviceGetTotalEccErrors", ecc);
  FindOptional("nvmlDeviceGetComputeRunningProcesses_v3", processes);
  FindOptional("nvmlEventSetCreate", create_events);
  FindOptional("nvmlEventSetFree", free_events);
  FindOptional("nvmlDeviceRegisterEvents", register_events);
  FindOptional("nvmlEventSetWait_v2", wait_events);
  FindOptional("nvmlDeviceGetP2PStatus", peer_status);
  FindOptional("nvmlDeviceGetTopologyCommonAncestor", common_ancestor);
  if (const int code = init(); code != kNvmlSuccess) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the NVIDIA management library finds no driver: ", ErrorText(code)));
  }
  initialized = true;
  return absl::OkStatus();
}

Nvml::Nvml(std::unique_ptr<Functions> functions)
    : functions_(std::move(functions)) {}

Nvml::~Nvml() {
  if (events_ != nullptr) functions_->free_events(events_);
}

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& library) {
  auto functions = std::make_unique<Functions>();
  RETURN_IF_ERROR(functions->Load(library));
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(functions)));
  // NVML writes at most 80 bytes (NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE). The
  // last byte here stays 0.
  std::array<char, 96> version = {};
  if (nvml->functions_->driver_version != nullptr &&
      nvml->functions_->driver_version(version.data(), version.size() - 1) ==
          kNvmlSuccess) {
    nvml->driver_version_ = version.data();
  }
  return nvml;
}

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::OpenFrom(
    const std::string& folders) {
  constexpr char kName[] = "libnvidia-ml.so.1";
  for (absl::string_view folder :
       absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    const std::string path = absl::StrCat(folder, "/", kName);
    // A container may have the library outside of the loader's search path.
    if (::access(path.c_str(), R_OK) == 0) return Open(path);
  }
  return Open(kName);
}

DeviceLinks Nvml::LinksBetween(const std::vector<std::string>& uuids) const {
  std::vector<void*> gpus(uuids.size());
  for (size_t i = 0; i < uuids.size(); ++i) {
    if (functions_->by_uuid(uuids[i].c_str(), &gpus[i]) != kNvmlSuccess) {
      gpus[i] = nullptr;
    }
  }
  DeviceLinks links(gpus.size(), std::vector<std::string>(gpus.size()));
  for (size_t a = 0; a < gpus.size(); ++a) {
    for (size_t b = 0; b < gpus.size(); ++b) {
      if (a == b || gpus[a] == nullptr || gpus[b] == nullptr) continue;
      links[a][b] = functions_->LinkBetween(gpus[a], gpus[b]);
    }
  }
  return links;
}

absl::Status Nvml::Watch(const std::string& uuid) {
  const int code = functions_->by_uuid(uuid.c_str(), &device_);
  if (code != kNvmlSuccess) {
    device_ = nullptr;
    return absl::NotFoundError(
        absl::StrCat("the NVIDIA management library knows no GPU ", uuid, ": ",
                     functions_->ErrorText(code)));
  }
  const Functions& f = *functions_;
  if (events_ != nullptr || f.create_events == nullptr ||
      f.free_events == nullptr || f.register_events == nullptr ||
      f.wait_events == nullptr || f.create_events(&events_) != kNvmlSuccess) {
    return absl::OkStatus();
  }
  // Some GPUs report no events. Then the readings go on without them.
  if (f.register_events(device_, kXidEvents, events_) != kNvmlSuccess) {
    f.free_events(events_);
    events_ = nullptr;
  }
  return absl::OkStatus();
}

void Nvml::ReadNumbers(DeviceReadings& readings) const {
  const Functions& f = *functions_;
  Functions::Utilization utilization = {};
  if (f.utilization != nullptr &&
      f.utilization(device_, &utilization) == kNvmlSuccess) {
    // NVML reports per cent here, and milliwatts below.
    readings.utilization = utilization.gpu / 100.0;
    readings.memory_utilization = utilization.memory / 100.0;
  }
  NvmlMemory memory = {};
  if (f.memory != nullptr && f.memory(device_, &memory) == kNvmlSuccess) {
    readings.used_bytes = memory.used;
  }
  unsigned number = 0;
  if (f.temperature != nullptr &&
      f.temperature(device_, kGpuSensor, &number) == kNvmlSuccess) {
    readings.temperature_celsius = number;
  }
  if (f.power != nullptr && f.power(device_, &number) == kNvmlSuccess) {
    readings.power_watts = number / 1000.0;
  }
  if (f.power_limit != nullptr &&
      f.power_limit(device_, &number) == kNvmlSuccess) {
    readings.power_limit_watts = number / 1000.0;
  }
  const auto clock = [&](unsigned kind, std::optional<uint32_t>& reading) {
    if (f.clock != nullptr && f.clock(device_, kind, &number) == kNvmlSuccess) {
      reading = number;
    }
  };
  clock(kMultiprocessorClock, readings.multiprocessor_clock_mhz);
  clock(kMemoryClock, readings.memory_clock_mhz);
  const auto ecc = [&](unsigned kind, std::optional<uint64_t>& reading) {
    unsigned long long count = 0;
    if (f.ecc != nullptr &&
        f.ecc(device_, kind, kNvmlSinceDriverStart, &count) == kNvmlSuccess) {
      reading = count;
    }
  };
  ecc(kCorrected, readings.ecc_corrected);
  ecc(kNvmlUncorrected, readings.ecc_uncorrected);
}

void Nvml::ReadProcesses(DeviceReadings& readings) const {
  if (functions_->processes == nullptr) return;
  std::vector<NvmlProcessInfo> found(kMaxProcesses);
  unsigned count = static_cast<unsigned>(found.size());
  const int code = functions_->processes(device_, &count, found.data());
  if (code != kNvmlSuccess && code != kInsufficientSize) return;
  // The library may report more processes than fit.
  if (count > found.size()) count = static_cast<unsigned>(found.size());
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t bytes =
        found[i].bytes == kNvmlNotAvailable ? 0 : found[i].bytes;
    readings.processes.push_back({found[i].pid, bytes});
  }
}

std::vector<uint32_t> Nvml::TakeEvents() {
  std::vector<uint32_t> codes;
  if (events_ == nullptr) return codes;
  // Bounded, so that a driver that reports endlessly does not hold the caller.
  while (codes.size() < kMaxXidEvents) {
    Functions::Event event = {};
    // A time limit of 0 takes only what is pending.
    if (functions_->wait_events(events_, &event, 0) != kNvmlSuccess) break;
    if (event.type != kXidEvents) continue;
    codes.push_back(static_cast<uint32_t>(event.data));
    xid_events_.push_back({absl::Now(), codes.back()});
    if (xid_events_.size() > kMaxXidEvents) xid_events_.pop_front();
  }
  return codes;
}

absl::Status Nvml::CheckEvents(const std::vector<uint32_t>& codes) const {
  for (const uint32_t code : codes) {
    if (ClassifyXid(code) != FaultClass::kQuarantine) continue;
    return SuspectStatus(
        absl::StrCat("the driver reports Xid ", code, ": ", XidText(code)));
  }
  return absl::OkStatus();
}

// A contained error is counted as well, but it has its own event.
absl::Status Nvml::CheckMemoryErrors(const DeviceReadings& readings,
                                     const std::vector<uint32_t>& codes) {
  if (!readings.ecc_uncorrected) return absl::OkStatus();
  // The first reading only sets the base: older errors are known.
  const uint64_t before =
      std::exchange(known_memory_errors_, readings.ecc_uncorrected)
          .value_or(*readings.ecc_uncorrected);
  const bool contained =
      std::find(codes.begin(), codes.end(), kXidContainedError) != codes.end();
  if (*readings.ecc_uncorrected <= before || contained) return absl::OkStatus();
  return SuspectStatus(absl::StrCat(
      "the GPU has counted ", *readings.ecc_uncorrected - before,
      " uncorrectable memory errors (ECC) since the last reading; reset it"));
}

absl::StatusOr<DeviceReadings> Nvml::Read() {
  if (device_ == nullptr) {
    return absl::FailedPreconditionError("no GPU is being watched");
  }
  NvmlMemory memory = {};
  const int code = functions_->memory == nullptr
                       ? kNvmlSuccess
                       : functions_->memory(device_, &memory);
  // Only these two codes prove that the GPU is unusable. Other errors leave a
  // reading empty.
  if (code == kNvmlGpuIsLost || code == kResetRequired) {
    return SuspectStatus(absl::StrCat("the driver has lost the GPU: ",
                                      functions_->ErrorText(code)));
  }
  DeviceReadings readings;
  readings.time = absl::Now();
  ReadNumbers(readings);
  ReadProcesses(readings);
  const std::vector<uint32_t> codes = TakeEvents();
  RETURN_IF_ERROR(CheckEvents(codes));
  RETURN_IF_ERROR(CheckMemoryErrors(readings, codes));
  readings.xid_events.assign(xid_events_.begin(), xid_events_.end());
  return readings;
}

}  // namespace gpupool::engine::cuda
