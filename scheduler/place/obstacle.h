// "May this start on this device, and if not, why?" ObstacleFor is the only
// answer to that:
//   * policies ask whether there is an obstacle
//   * the bounds that refuse early (free_devices.h, room_bound.h) ask it about
//     the least need
//   * people read its text
//
// A new condition on starts that concerns one device is one more kind here.
//
// Conditions on several devices together (enough of them, of one kind, on one
// machine with enough host memory) are in placement_policy.h.
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

// Kinds in the order in which obstacles are reported: lasting ones come first.
enum class ObstacleKind : uint8_t {
  // Lasting: no event removes these.
  kNotWanted,  // other devices are wanted, or the queue bars it
  kTooSmall,   // even if all of the device could be used
  // Lasting until somebody acts.
  kHeldBack,  // the memory fraction leaves too little
  kNotReady,  // the device has no worker
  kDrained,
  // Passing by themselves.
  kPromised,    // others make room there for another job
  kReserved,    // for another tenant's jobs, now or too soon
  kSettling,    // a gang has left only some of its devices
  kHasGang,     // runs a gang: two gangs could wait crosswise
  kCools,       // cools down after a fault
  kLacksBytes,  // other jobs or versions hold the bytes
  kLacksHost,   // other jobs hold the host's cores or memory
};

struct Obstacle {
  ObstacleKind kind = ObstacleKind::kNotWanted;
  // Bytes of the device (kTooSmall), usable bytes (kHeldBack) or missing bytes
  // (kLacksBytes).
  uint64_t bytes = 0;
  const TenantReservation* reservation = nullptr;  // for kReserved
};

// Returns whether the obstacle lasts whatever happens.
constexpr bool Lasts(ObstacleKind kind) {
  return kind <= ObstacleKind::kTooSmall;
}

// Changes on the device that are assumed to happen before the start.
struct Meanwhile {
  // Bytes that are given back; negative when others take bytes.
  int64_t returned_bytes = 0;
  uint32_t gangs_leave = 0;   // number of gangs that leave
  bool cooled = false;        // its cool-down is over
  bool settled = false;       // gangs have left their other devices, too
  bool promise_kept = false;  // the job that it is reserved for has come
  bool reservation_over = false;
  bool host_freed = false;  // the machine has enough host room

  // Adds the leaving of a job that runs on the device.
  void Leave(const Job& job, const Device& device) {
    returned_bytes += static_cast<int64_t>(BytesOn(job, device));
    gangs_leave += job.device_count > 1;
  }
};

// Returns the changes that come soon by themselves: stopped strays are gone,
// and gangs that have left some of their devices have left all. Room of the
// host is not counted by device and stays as it is.
inline Meanwhile WhenSettled(const Device& device) {
  return {.returned_bytes = static_cast<int64_t>(device.stray_bytes),
          .settled = true,
          .host_freed = true};
}

// Returns the changes once all jobs have left the device and everything has
// passed that then passes by itself.
inline Meanwhile WhenEmptied(const Device& device) {
  return {.returned_bytes =
              static_cast<int64_t>(device.job_bytes + device.stray_bytes),
          .gangs_leave = device.gangs,
          .cooled = true,
          .settled = true,
          .promise_kept = true,
          .host_freed = true};
}

// Returns the first obstacle to a start on the device now, in the order of its
// kinds, or nothing when it may start. Of a need for several devices it looks
// at the part of this device.
//
// Always inlined: loops over all devices call it, mostly with a constant
// `until`.
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
