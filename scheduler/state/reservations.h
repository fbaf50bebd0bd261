// Reservations: for a window of time some devices are kept for the jobs of one
// tenant. Within it jobs of other tenants neither start there nor stay. Those
// that run when it begins checkpoint and go on elsewhere or later. Jobs of the
// tenant may use other devices as well. Served models stay where they are.
//
// A device has at most one reservation at a time; whoever adds one must ensure
// that (reservation_policy.h).
//
// Thread-safety: a value; as State.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Maximum number of reservations that have not ended. Bounds the cost of a
// decision.
inline constexpr size_t kMostReservations = 256;

struct TenantReservation {
  ReservationId id;
  std::string name;
  std::string tenant;             // its children may use it, too (fair_share.h)
  std::vector<DeviceId> devices;  // rising
  absl::Time start;
  absl::Time end;      // exclusive
  bool begun = false;  // whether its begin was acted upon

  bool Takes(absl::string_view job_tenant) const;
  bool Covers(absl::Time time) const { return start <= time && time < end; }
};

// A job that wants to start on a device.
struct Visitor {
  absl::string_view tenant;
  // Shortest useful run: a start that leaves it less before it must go is
  // refused.
  absl::Duration least_run;
  // Longest time until it ends by itself; InfiniteDuration: unknown.
  absl::Duration left = absl::InfiniteDuration();
  friend bool operator==(const Visitor&, const Visitor&) = default;
};

class Reservations {
 public:
  bool empty() const { return all_.empty(); }
  const absl::btree_map<ReservationId, TenantReservation>& all() const {
    return all_;
  }
  // Returns null when unknown.
  const TenantReservation* Find(ReservationId id) const;
  // Returns the device's reservation at that time, or null.
  const TenantReservation* At(DeviceId device, absl::Time time) const {
    return all_.empty() ? nullptr : Search(device, time);
  }
  // Returns the device's reservations in the order of their starts.
  std::vector<const TenantReservation*> Of(DeviceId device) const;
  // Returns the reservation that keeps the visitor from starting on the device
  // at that time, or null. A reservation that is yet to begin does so if the
  // visitor would have to go too soon.
  const TenantReservation* Against(DeviceId device, const Visitor& visitor,
                                   absl::Time time) const;
  // Returns whether a device is reserved for the tenant's jobs, now or later,
  // so that they may start on other devices than jobs of other tenants.
  bool Name(absl::string_view job_tenant) const;
  // Returns when the next one begins or ends; InfiniteFuture: none will.
  absl::Time NextChange() const;

  // Adds a reservation. Its id must be unused and its devices free in the
  // window.
  void Add(TenantReservation reservation);
  void Remove(ReservationId id);
  void SetBegun(ReservationId id) { all_.at(id).begun = true; }

 private:
  const TenantReservation* Search(DeviceId device, absl::Time time) const;

  absl::btree_map<ReservationId, TenantReservation> all_;
  // Reservations of each device by start; shorter than the list of devices when
  // the last ones have none.
  std::vector<absl::btree_map<absl::Time, ReservationId>> by_device_;
};

// Returns "cpu:0 is reserved for research until 2026-11-24T12:00:00Z"; for a
// reservation that is yet to begin with "from ... until ...".
std::string ReservedText(absl::string_view device,
                         const TenantReservation& reservation, absl::Time now);

}  // namespace gpupool::scheduler
