#include "engine/backends/cuda/cuda_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/backends/cuda/driver/device_limits.h"
#include "engine/backends/cuda/driver/device_query.h"
#include "engine/backends/cuda/streams/cupti_timer.h"
#include "engine/backends/cuda/streams/event_timer.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(
    const ModuleDeviceOptions& options) {
  ASSIGN_OR_RETURN(DeviceFacts facts, DescribeGpu(options.index));
  std::unique_ptr<CudaDevice> device(new CudaDevice(options, std::move(facts)));
  RETURN_IF_ERROR(device->Start());
  return device;
}

absl::Status CudaDevice::MakeCurrent() {
  return StatusOf(cudaSetDevice(options_.index),
                  absl::StrCat("using GPU ", options_.index));
}

std::unique_ptr<CudaLibraries> CudaDevice::OpenLibraries(
    const Stream* compute, const Stream* communication) const {
  CudaLibraryOptions wanted;
  wanted.folders = options_.vendor_library_dirs;
  wanted.cache_folder = options_.plan_cache_dir;
  wanted.device = PlanDevice(facts_);
  wanted.compute = compute;
  wanted.communication = communication;
  return std::make_unique<CudaLibraries>(wanted);
}

absl::Status CudaDevice::Start() {
  RETURN_IF_ERROR(MakeCurrent());
  // Creates the context now, so that its errors name the GPU.
  RETURN_IF_ERROR(StatusOf(cudaFree(nullptr),
                           absl::StrCat("opening GPU ", options_.index)));
  ASSIGN_OR_RETURN(const DriverFunctions driver, FindDriverFunctions());
  ASSIGN_OR_RETURN(streams_, Streams::Create());
  ASSIGN_OR_RETURN(pages_, CudaPageSource::Create(driver, options_.index));
  ASSIGN_OR_RETURN(timeline_, CudaTimeline::Create(driver, streams_));
  libraries_ = OpenLibraries(&streams_.compute, &streams_.communication);
  facts_.libraries = libraries_->Describe();
  const uint64_t recordings = BackendRecordingBytes(facts_.total_bytes);
  ASSIGN_OR_RETURN(backend_, CudaBackend::Create({.facts = &facts_,
                                                  .stream = &streams_.compute,
                                                  .copy = &streams_.copy,
                                                  .libraries = libraries_.get(),
                                                  .registered = &registered_,
                                                  .recording_bytes = recordings,
                                                  .recordings = &recordings_,
                                                  .log = options_.log}));
  StartReadings();
  return absl::OkStatus();
}

absl::StatusOr<DeviceBackend*> CudaDevice::ServingBackend() {
  if (serving_ != nullptr) return serving_.get();
  serving_libraries_ = OpenLibraries(&streams_.inference, nullptr);
  const uint64_t recordings = BackendRecordingBytes(facts_.total_bytes);
  ASSIGN_OR_RETURN(serving_,
                   CudaBackend::Create({.facts = &facts_,
                                        .stream = &streams_.inference,
                                        .libraries = serving_libraries_.get(),
                                        .registered = &registered_,
                                        .recording_bytes = recordings,
                                        .recordings = &recordings_,
                                        .log = options_.log}));
  return serving_.get();
}

LaunchTimer* CudaDevice::timer() {
  if (timer_ != nullptr) return timer_.get();
  auto made = MakeCuptiTimer(options_.vendor_library_dirs);
  if (made.ok()) {
    timer_ = *std::move(made);
  } else {
    // Events are less precise, but need no further library.
    timer_ = std::make_unique<EventTimer>(&streams_.compute);
  }
  return timer_.get();
}

void CudaDevice::StartReadings() {
  absl::MutexLock lock(&nvml_mutex_);
  // A GPU without readings can still work, so errors here are only kept.
  auto nvml = Nvml::OpenFrom(options_.vendor_library_dirs);
  no_readings_ = nvml.status();
  if (!nvml.ok()) return;
  no_readings_ = (*nvml)->Watch(facts_.uuid);
  if (!no_readings_.ok()) return;
  if (facts_.driver_version.empty()) {
    facts_.driver_version = (*nvml)->driver_version();
  }
  nvml_ = *std::move(nvml);
}

absl::StatusOr<DeviceReadings> CudaDevice::Read() {
  absl::MutexLock lock(&nvml_mutex_);
  if (nvml_ != nullptr) return nvml_->Read();
  return absl::UnimplementedError(no_readings_.message());
}

}  // namespace gpupool::engine::cuda
