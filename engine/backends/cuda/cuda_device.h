// An open GPU: its context, streams, memory and back ends.
//
// Thread-safety: as ModuleDevice. Open makes the device current on the calling
// thread. Other threads that compute must call MakeCurrent.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/cuda_libraries.h"
#include "engine/backends/cuda/cuda_pages.h"
#include "engine/backends/cuda/driver/nvml.h"
#include "engine/backends/cuda/streams/cuda_timeline.h"
#include "engine/runtime/device_module.h"

namespace gpupool::engine::cuda {

class CudaDevice : public ModuleDevice {
 public:
  // Opens the device. Returns the status codes of DeviceModule::Open.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(
      const ModuleDeviceOptions& options);

  absl::Status MakeCurrent() override;
  DeviceBackend& backend() override { return *backend_; }
  // Returns a back end that has its own libraries, since these are bound to a
  // stream.
  absl::StatusOr<DeviceBackend*> ServingBackend() override;
  PageSource& pages() override { return *pages_; }
  TimelineSource& timeline() override { return *timeline_; }
  // Returns a timer by CUPTI if it is available, else by events.
  LaunchTimer* timer() override;
  const DeviceFacts& facts() const override { return facts_; }
  const RecordingCounters* recordings() const override { return &recordings_; }
  absl::StatusOr<DeviceReadings> Read() override;

 private:
  CudaDevice(const ModuleDeviceOptions& options, DeviceFacts facts)
      : options_(options), facts_(std::move(facts)) {}
  absl::Status Start();
  // Opens libraries for kernels on `compute`. Without `communication` there are
  // no kernels that sum over ranks.
  std::unique_ptr<CudaLibraries> OpenLibraries(
      const Stream* compute, const Stream* communication) const;
  // Opens NVML. The device works without its readings, so a failure is only
  // noted.
  void StartReadings();

  const ModuleDeviceOptions options_;
  DeviceFacts facts_;
  Streams streams_;
  HostRanges registered_;
  RecordingCounters recordings_;  // shared by both back ends
  std::unique_ptr<CudaPageSource> pages_;
  std::unique_ptr<CudaTimeline> timeline_;
  std::unique_ptr<CudaLibraries> libraries_;
  std::unique_ptr<CudaBackend> backend_;
  // Both are made on first use, since a worker may never serve.
  std::unique_ptr<CudaLibraries> serving_libraries_;
  std::unique_ptr<CudaBackend> serving_;
  std::unique_ptr<LaunchTimer> timer_;  // made on first use
  absl::Mutex nvml_mutex_;
  std::unique_ptr<Nvml> nvml_ ABSL_GUARDED_BY(nvml_mutex_);
  absl::Status no_readings_;  // why nvml_ is null
};

}  // namespace gpupool::engine::cuda
