// "May this start on this device, and if not, why?" ObstacleFor answers for
// everybody: policies ask whether there is an obstacle, the bounds that say no
// early (free_devices.h, room_bound.h) are made of its answers about the least
// need, and people are told its text. A condition on starts that belongs to one
// device is one more kind here.
//
// Whether several devices would do together (enough of them, of one kind, on
// one machine that can spare what they all need) is placement_policy.h.
//
// Thread-safety: as State. Pure functions of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/attributes.h"
#include "scheduler/place/need.h"
#include "scheduler/state/device.h"
#include "scheduler/state/reservations.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// In the order in which obstacles are told: those that last come first.
enum class ObstacleKind : uint8_t {
  // Nothing that happens removes these.
  kNotWanted,  // it wants other devices, or its queue may not use this one
  kTooSmall,   // for it alone, even if all of the device could be used
  // Somebody must remove these.
  kHeldBack,  // the memory fraction leaves too little
  kNotReady,  // the device has no worker
  kDrained,
  // These pass by themselves.
  kPromised,    // others make room there for another job
  kReserved,    // for another tenant's jobs, now or too soon
  kSettling,    // a job on several devices has left only some of them
  kHasGang,     // both would run on several devices, and could wait crosswise
  kCools,       // after a fault
  kLacksBytes,  // others hold them
  kLacksHost,   // others hold what it needs of the machine
};

struct Obstacle {
  ObstacleKind kind = ObstacleKind::kNotWanted;
  // kTooSmall: that the device has. kHeldBack: that may be used. kLacksBytes:
  // that are missing.
  uint64_t bytes = 0;
  const TenantReservation* reservation = nullptr;  // kReserved
};

// Returns whether the device will never do, whatever happens.
constexpr bool Lasts(ObstacleKind kind) {
  return kind <= ObstacleKind::kTooSmall;
}

// Changes on the device that are taken for granted before the start.
struct Meanwhile {
  // Bytes that are given back; below 0: that others take.
  int64_t returned_bytes = 0;
  uint32_t gangs_leave = 0;   // jobs on several devices
  bool cooled = false;        // its cool-down is over
  bool settled = false;       // others have left their devices, too
  bool promise_kept = false;  // the job that it is reserved for has been there
  bool reservation_over = false;
  bool host_freed = false;  // the machine has what is needed

  // Adds that the job leaves the device, on which it runs.
  void Leave(const Job& job, const Device& device) {
    returned_bytes += static_cast<int64_t>(BytesOn(job, device));
    gangs_leave += job.device_count > 1;
  }
};

// Returns what happens soon by itself: strays, which were told to stop, are
// gone, and jobs that have left some of their devices have left all. What
// others need of the machine is not known by device.
inline Meanwhile WhenSettled(const Device& device) {
  return {.returned_bytes = static_cast<int64_t>(device.stray_bytes),
          .settled = true,
          .host_freed = true};
}

// Returns what all jobs of the device leave behind when they have left it, and
// when what then passes by itself has passed.
inline Meanwhile WhenEmptied(const Device& device) {
  return {.returned_bytes =
              static_cast<int64_t>(device.job_bytes + device.stray_bytes),
          .gangs_leave = device.gangs,
          .cooled = true,
          .settled = true,
          .promise_kept = true,
          .host_freed = true};
}

// Returns the first obstacle, in the order of its kinds, to a start on the
// device now; nothing when it may start. Of what several devices need it looks
// at the part of this one.
// Inlined always: loops over all devices ask, mostly with a constant `until`.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline std::optional<Obstacle> ObstacleFor(
    const State& state, const Device& device, const Need& need,
    const Meanwhile& until = {}) {
  using enum ObstacleKind;
  if (!DeviceMatches(device, need)) return Obstacle{kNotWanted};
  if (device.full_bytes < need.bytes) {
    return Obstacle{kTooSmall, device.full_bytes};
  }
  if (device.limit_bytes < need.bytes) {
    return Obstacle{kHeldBack, device.limit_bytes};
  }
  if (!device.ready) return Obstacle{kNotReady};
  if (device.drain) return Obstacle{kDrained};
  if (device.reserved_for && device.reserved_for != need.job &&
      !until.promise_kept) {
    return Obstacle{kPromised};
  }
  if (!until.reservation_over) {
    if (const auto* against = ReservationAgainst(state, device.id, need)) {
      return Obstacle{kReserved, 0, against};
    }
  }
  if (device.settling > 0 && !until.settled) return Obstacle{kSettling};
  if (need.devices > 1 && device.gangs > until.gangs_leave) {
    return Obstacle{kHasGang};
  }
  if (need.job && device.cools() && !until.cooled) return Obstacle{kCools};
  const uint64_t needed = NeededOn(need, device);
  const uint64_t free = device.free_bytes(until.returned_bytes);
  if (free < needed) return Obstacle{kLacksBytes, needed - free};
  if (!until.host_freed && !need.demands.host.none() &&
      state.machines()[device.machine].Holds(need.demands.host) == 0) {
    return Obstacle{kLacksHost};
  }
  return std::nullopt;
}

// Returns "a fault" or "3 faults in a row".
std::string FaultsText(const Device& device);

// Returns the obstacle in words: "lacks 1.0 GiB", "drained: new fan".
std::string ObstacleText(const State& state, const Device& device,
                         const Need& need, const Obstacle& obstacle);

}  // namespace gpupool::scheduler
