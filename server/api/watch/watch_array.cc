#include "server/api/watch/watch_array.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "server/control/calls/context.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(500);

// Returns whether all tasks are in one of the last three states, which a job
// does not leave.
bool HasEnded(const v1::JobArray& array) {
  return std::all_of(
      array.counts().begin(), array.counts().end(),
      [](const auto& count) { return count.state() >= v1::SUCCEEDED; });
}

}  // namespace

// Compares serialized counts, and asks for the next look by a timer.
WatchArrayStream::Step WatchArrayStream::Next() {
  if (ended_) return absl::OkStatus();
  const absl::Time now = absl::Now();
  if (now < next_look_) {
    WakeLater();
    return Idle{};
  }
  next_look_ = now + kInterval;
  auto array = control_->store->GetArray(id_);
  if (!array.ok()) return array.status();
  std::string bytes = array->SerializeAsString();
  ended_ = HasEnded(*array);
  if (bytes == last_) {
    WakeLater();
    return Idle{};
  }
  last_ = std::move(bytes);
  return *std::move(array);
}

void WatchArrayStream::WakeLater() {
  std::weak_ptr<EventWriter<v1::JobArray>> weak = weak_from_this();
  RunAfter(std::max(next_look_ - absl::Now(), absl::Milliseconds(1)), [weak] {
    if (const auto stream = weak.lock()) stream->Wake();
  });
}

}  // namespace gpupool::server
