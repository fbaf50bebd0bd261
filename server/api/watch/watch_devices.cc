#include "server/api/watch/watch_devices.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "server/control/devices/device_requests.h"

namespace gpupool::server {
namespace {

// Longest single timer. A pending timer cannot be cancelled, and keeps an ended
// stream alive until it fires.
constexpr absl::Duration kLongestTimer = absl::Seconds(1);

}  // namespace

// Compares serialized messages, and asks for the next look by a timer.
WatchDevicesStream::Step WatchDevicesStream::Next() {
  const absl::Time now = absl::Now();
  if (now < next_look_) {
    WakeLater();
    return Idle{};
  }
  next_look_ = now + interval_;
  v1::ListDevicesResponse devices;
  for (v1::Device& device : server::ListDevices(*control_)) {
    hide_(&device);
    *devices.add_devices() = std::move(device);
  }
  std::string bytes = devices.SerializeAsString();
  if (bytes == last_) {
    WakeLater();
    return Idle{};
  }
  last_ = std::move(bytes);
  return devices;
}

void WatchDevicesStream::WakeLater() {
  std::weak_ptr<EventWriter<v1::ListDevicesResponse>> weak = weak_from_this();
  const absl::Duration delay = std::clamp(next_look_ - absl::Now(),
                                          absl::Milliseconds(1), kLongestTimer);
  RunAfter(delay, [weak] {
    if (const auto stream = weak.lock()) stream->Wake();
  });
}

}  // namespace gpupool::server
