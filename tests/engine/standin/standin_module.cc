// A CUDA module for machines without a GPU. It has three devices whose kernels
// run on the host, for tests of everything above kernels:
//   cuda:0  portable kernels (those of GPUs) on protected memory. Work waits;
//           copies beside it are as late as allowed
//   cuda:1  the CPU's kernels, on protected memory. Work waits; copies beside
//   it
//           are as early as allowed
//   cuda:2  portable kernels on plain memory, at once
// The stand-in of the management library knows them as "GPU-fake", "GPU-fake-1"
// and "GPU-fake-2". The devices with protected memory have a separate queue for
// serving. They log what they pin and, at the end, how they copied.
//
// GPUPOOL_STANDIN selects a failure:
//   none         there is no driver
//   unpinnable   memory of other owners cannot be pinned
//   old          the module has no kernels for cuda:1
//   unplannable  there are no plans for a device that is not open
// The file named by GPUPOOL_STANDIN_OPENED gets a line "PID cuda:I" for each
// opened device.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cuda/driver/nvml.h"
#include "engine/backends/portable/portable_backend.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/device_module.h"
#include "engine/runtime/module_build_id.h"
#include "engine/runtime/plan_only.h"
#include "tests/engine/standin/queued_backend.h"

namespace gpupool::engine::standin {
namespace {

constexpr int kDevices = 3;
constexpr uint64_t kTotalBytes = uint64_t{4} << 30;
constexpr std::array<const char*, kDevices> kNames = {
    "Stand-in, portable kernels", "Stand-in, CPU kernels",
    "Stand-in, plain memory"};

constexpr std::array<const char*, kDevices> kUuids = {"GPU-fake", "GPU-fake-1",
                                                      "GPU-fake-2"};

// A timeline without streams: no work is pending when memory is given back.
class NoStreams : public TimelineSource {
 public:
  uint64_t Completed(StreamId) const override { return 0; }
  absl::Status Wait(const Moment&) override {
    return absl::InternalError("the stand-in has no streams");
  }
};

bool Asked(const char* value) {
  const char* const asked = std::getenv("GPUPOOL_STANDIN");
  return asked != nullptr && std::strcmp(asked, value) == 0;
}

// Returns whether all GPUs are hidden, by the rules of the CUDA runtime.
bool AreHidden() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && *visible == '\0';
}

// Adds a line for an opened context to the file of GPUPOOL_STANDIN_OPENED.
void NoteOpened(int index) {
  const char* const path = std::getenv("GPUPOOL_STANDIN_OPENED");
  if (path == nullptr) return;
  std::ofstream(path, std::ios::app)
      << absl::StrCat(::getpid(), " cuda:", index, "\n");
}

class StandinDevice : public ModuleDevice {
 public:
  using Kernels = std::function<std::unique_ptr<DeviceBackend>()>;

  StandinDevice(DeviceFacts facts, const ModuleDeviceOptions& options)
      : facts_(std::move(facts)), log_(options.log) {
    if (Asked("unpinnable")) {
      host_.refusal = absl::ResourceExhaustedError("nothing can be pinned");
    }
    auto nvml = cuda::Nvml::OpenFrom(options.vendor_library_dirs);
    if (nvml.ok() && (*nvml)->Watch(facts_.uuid).ok()) {
      facts_.driver_version = (*nvml)->driver_version();
      nvml_ = *std::move(nvml);
    }
  }

  ~StandinDevice() override {
    if (serving_ == nullptr || log_ == nullptr) return;
    log_(absl::StrCat("stand-in: registrations ", host_.registrations,
                      ", left ", host_.registrations - host_.unregistrations,
                      "; copies of registered memory ", host_.registered_copies,
                      ", of staging ", host_.staged_copies, "; copies beside ",
                      host_.copies_beside));
  }
  StandinDevice(const StandinDevice&) = delete;
  StandinDevice& operator=(const StandinDevice&) = delete;

  void UsePlainMemory(const Kernels& kernels) {
    pages_ = &plain_;
    backend_ = kernels();
  }
  void UseProtectedMemory(const Kernels& kernels, WorkQueue::Pace copies) {
    pages_ = &protected_;
    const RecordingCacheOptions recorded = {
        .bytes = BackendRecordingBytes(facts_.total_bytes),
        .counters = &recordings_,
        .log = log_};
    backend_ = std::make_unique<QueuedBackend>(kernels(), &protected_, &host_,
                                               copies, recorded);
    serving_ = std::make_unique<QueuedBackend>(kernels(), &protected_, &host_,
                                               std::nullopt, recorded);
  }

  absl::Status MakeCurrent() override { return absl::OkStatus(); }
  DeviceBackend& backend() override { return *backend_; }
  absl::StatusOr<DeviceBackend*> ServingBackend() override {
    return serving_ != nullptr ? serving_.get() : backend_.get();
  }
  PageSource& pages() override { return *pages_; }
  TimelineSource& timeline() override { return timeline_; }
  const DeviceFacts& facts() const override { return facts_; }
  const RecordingCounters* recordings() const override { return &recordings_; }
  absl::StatusOr<DeviceReadings> Read() override {
    absl::MutexLock lock(&mutex_);
    if (nvml_ != nullptr) return nvml_->Read();
    return absl::UnimplementedError("there is no management library");
  }

 private:
  DeviceFacts facts_;
  HostPageSource plain_;
  ProtectedPages protected_;
  PageSource* pages_ = nullptr;
  NoStreams timeline_;
  HostSide host_;
  RecordingCounters recordings_;
  const std::function<void(absl::string_view)> log_;
  std::unique_ptr<DeviceBackend> backend_;
  std::unique_ptr<DeviceBackend> serving_;  // null: the same as for training
  absl::Mutex mutex_;
  std::unique_ptr<cuda::Nvml> nvml_;
};

class StandinModule : public DeviceModule {
 public:
  absl::StatusOr<int> CountDevices() override {
    if (AreHidden()) {
      return absl::FailedPreconditionError(
          "the NVIDIA driver shows no GPU: CUDA_VISIBLE_DEVICES is empty");
    }
    if (!Asked("none")) return kDevices;
    return absl::FailedPreconditionError("there is no NVIDIA driver");
  }
  ModuleArchitectures Architectures() const override { return {{90}, {90}}; }
  absl::StatusOr<DeviceFacts> Describe(int index) override {
    ASSIGN_OR_RETURN(const int count, CountDevices());
    if (index < 0 || index >= count) {
      return absl::NotFoundError(absl::StrCat("there is no GPU ", index,
                                              ": the NVIDIA driver shows ",
                                              count, " (numbered from 0)"));
    }
    return DeviceFacts{
        .name = kNames[static_cast<size_t>(index)],
        .uuid = kUuids[static_cast<size_t>(index)],
        .pci_bus_id = "0000:00:00.0",
        .compute_capability = index == 1 && Asked("old") ? "7.5" : "9.0",
        .multiprocessors = 1,
        .threads_per_multiprocessor = 2048,
        .total_bytes = kTotalBytes,
        .cuda_version = "13.0",
        .properties = kNames[static_cast<size_t>(index)]};
  }
  absl::StatusOr<DeviceLinks> Links(
      const std::string& vendor_library_dirs) override {
    RETURN_IF_ERROR(CountDevices().status());
    const std::vector<std::string> uuids(kUuids.begin(), kUuids.end());
    const auto nvml = cuda::Nvml::OpenFrom(vendor_library_dirs);
    if (nvml.ok()) return (*nvml)->LinksBetween(uuids);
    return DeviceLinks(kDevices, std::vector<std::string>(kDevices));
  }
  absl::StatusOr<std::unique_ptr<ModuleDevice>> Open(
      const ModuleDeviceOptions& options) override {
    ASSIGN_OR_RETURN(DeviceFacts facts, Describe(options.index));
    NoteOpened(options.index);
    auto device = std::make_unique<StandinDevice>(std::move(facts), options);
    const auto portable = [] {
      return std::make_unique<portable::PortableBackend>();
    };
    if (options.index == 1) {
      device->UseProtectedMemory([] { return std::make_unique<CpuBackend>(1); },
                                 WorkQueue::Pace::kEager);
    } else if (options.index == 0) {
      device->UseProtectedMemory(portable, WorkQueue::Pace::kLate);
    } else {
      device->UsePlainMemory(portable);
    }
    return device;
  }
  absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanner(
      const DeviceFacts& facts, const ModuleDeviceOptions&) override {
    if (Asked("unplannable")) {
      return absl::FailedPreconditionError(
          "cuDNN 9.7.0 cannot plan for a GPU that is not open");
    }
    std::unique_ptr<DeviceBackend> kernels;
    if (facts.properties == kNames[1]) {
      kernels = std::make_unique<CpuBackend>(1);
    } else {
      kernels = std::make_unique<portable::PortableBackend>();
    }
    return std::make_unique<PlanOnlyBackend>(std::move(kernels),
                                             facts.properties != kNames[2]);
  }
};

}  // namespace
}  // namespace gpupool::engine::standin

extern "C" __attribute__((visibility("default"))) void gpupool_device_module(
    gpupool::engine::ModuleEntry* entry) {
  static gpupool::engine::standin::StandinModule module;
  entry->build_id = gpupool::engine::ModuleBuildId();
  entry->module = &module;
}
