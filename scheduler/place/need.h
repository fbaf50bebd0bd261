// Requirements of a job or a model version on the devices that it starts on.
//
// Thread-safety: as State.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/strings/string_view.h"
#include "scheduler/state/demands.h"
#include "scheduler/state/device_choice.h"
#include "scheduler/state/reservations.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

struct Need {
  uint64_t bytes = 0;  // on each device
  // Choice of devices, as in device_choice.h. Several devices are all of one
  // kind.
  absl::string_view wanted_device;
  uint32_t devices = 1;
  // The job; empty for a version. A job may use the devices that are reserved
  // for it, but none that cool down. A version may use those that cool down,
  // since it may have no other place.
  std::optional<JobId> job;
  Demands demands = {};
  const Queues::Entry* queue = nullptr;  // its devices only; null: all devices
  // The visitor of a job, where there are reservations (reservations.h).
  Visitor visitor = {};
  bool spares_cpu = false;  // leaves CPU devices alone (device_choice.h)
};

// Returns what the job needs to start. Valid as long as the job and the state
// live.
Need NeedOf(const State& state, const Job& job);

// Returns what the version needs to be loaded. Valid as long as the version
// lives.
Need NeedOf(const State& state, const Version& version);

// Returns a need that every job of the queue exceeds, or with null every job.
// An obstacle to it on a device keeps all those jobs away, except a job for
// which the device is reserved.
Need LeastNeed(const Queues::Entry* queue);

// Returns whether the need wants the device and its queue may use it.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool DeviceMatches(const Device& device,
                                                       const Need& need) {
  return TakesDevice(need.wanted_device, device.name, device.kind) &&
         !(need.spares_cpu && device.kind == kCpuKind) &&
         (need.queue == nullptr || need.queue->MayUse(device.id));
}

// Returns false when DeviceMatches is false for every device of the kind.
bool KindMayMatch(absl::string_view kind, const Need& need);

// Returns how many bytes must be free on the device.
inline uint64_t NeededOn(const Need& need, const Device& device) {
  return need.demands.exclusive ? std::max(need.bytes, device.limit_bytes)
                                : need.bytes;
}

// Returns the tenant's reservation that keeps the job from starting there now,
// or null. No reservation keeps a version away.
inline const TenantReservation* ReservationAgainst(const State& state,
                                                   DeviceId device,
                                                   const Need& need) {
  if (state.reservations().empty() || !need.job) return nullptr;
  return state.reservations().Against(device, need.visitor, state.now());
}

}  // namespace gpupool::scheduler
