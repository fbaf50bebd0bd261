#include "server/worker/device_monitor.h"

#include <sys/prctl.h>

#include <string>
#include <utility>

#include "spdlog/spdlog.h"

namespace gpupool::server {

DeviceMonitor::DeviceMonitor(const Engine* engine, absl::Duration interval)
    : engine_(engine), interval_(interval), thread_([this] {
        ::prctl(PR_SET_NAME, "monitor");
        Run();
      }) {}

DeviceMonitor::~DeviceMonitor() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
}

std::optional<v1::GpuReadings> DeviceMonitor::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(newest_, std::nullopt);
}

void DeviceMonitor::Run() {
  absl::Status last;
  while (AskOnce(&last)) {
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopped_), interval_)) return;
  }
}

bool DeviceMonitor::AskOnce(absl::Status* last) {
  absl::StatusOr<v1::GpuReadings> readings = engine_->Readings();
  // Logs each kind of failure once, and not once a second.
  if (!readings.ok() && readings.status() != *last) {
    spdlog::warn("the device tells nothing: {}",
                 std::string(readings.status().message()));
  }
  *last = readings.status();
  if (absl::IsUnimplemented(*last)) return false;
  if (readings.ok()) {
    absl::MutexLock lock(&mutex_);
    newest_ = *std::move(readings);
  }
  return true;
}

}  // namespace gpupool::server
