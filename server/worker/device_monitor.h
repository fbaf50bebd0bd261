// Asks the engine regularly for its device's readings, on a thread of its own:
// a management library may take long and must delay neither heartbeats nor
// training. The thread ends by itself when the device has no readings.
//
// Thread-safety: Take from one thread at a time. The engine must outlive it.
#pragma once

#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/worker/engine.h"

namespace gpupool::server {

class DeviceMonitor {
 public:
  DeviceMonitor(const Engine* engine, absl::Duration interval);
  // Waits for a running question.
  ~DeviceMonitor();
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;

  // Returns the newest readings, each once.
  std::optional<v1::GpuReadings> Take();

 private:
  void Run();
  // Returns false when the engine need not be asked again.
  bool AskOnce(absl::Status* last);

  const Engine* const engine_;
  const absl::Duration interval_;
  absl::Mutex mutex_;
  std::optional<v1::GpuReadings> newest_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
