// Reservations: for a window of time some devices are for the jobs of one
// tenant. Within it jobs of others neither start there nor stay: what runs
// there when it begins checkpoints and goes on elsewhere or later. Jobs of the
// tenant may use other devices as well. What is served stays where it is.
//
// A device has one reservation at a time. Whoever makes one sees to that
// (reservation_policy.h).
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

// That have not ended. What is looked through in a decision is bounded by it.
inline constexpr size_t kMostReservations = 256;

struct TenantReservation {
  ReservationId id;
  std::string name;
  std::string tenant;             // and those below it (fair_share.h)
  std::vector<DeviceId> devices;  // rising
  absl::Time start;
  absl::Time end;      // its first moment after `start`
  bool begun = false;  // that has been acted upon

  bool Takes(absl::string_view job_tenant) const;
  bool Covers(absl::Time time) const { return start <= time && time < end; }
};

// A job that asks for a device.
struct Visitor {
  absl::string_view tenant;
  // A start is useless that leaves it less than that before it must go.
  absl::Duration least_run;
  // Until it ends by itself at the latest; InfiniteDuration: nobody knows.
  absl::Duration left = absl::InfiniteDuration();
  friend bool operator==(const Visitor&, const Visitor&) = default;
};

class Reservations {
 public:
  bool empty() const { return all_.empty(); }
  const absl::btree_map<ReservationId, TenantReservation>& all() const {
    return all_;
  }
  // Null when unknown.
  const TenantReservation* Find(ReservationId id) const;
  // The device's at that time; null when it has none.
  const TenantReservation* At(DeviceId device, absl::Time time) const {
    return all_.empty() ? nullptr : Search(device, time);
  }
  // The device's, rising.
  std::vector<const TenantReservation*> Of(DeviceId device) const;
  // That keeps the visitor from starting on the device at that time; null when
  // none does. Of one that is to come: the visitor would have to go too soon.
  const TenantReservation* Against(DeviceId device, const Visitor& visitor,
                                   absl::Time time) const;
  // Some device is reserved for jobs of the tenant, now or later: where they
  // may start differs from where others may.
  bool Name(absl::string_view job_tenant) const;
  // When the next one begins or ends; InfiniteFuture: none will.
  absl::Time NextChange() const;

  // The ids are not known, and the devices free in the window.
  void Add(TenantReservation reservation);
  void Remove(ReservationId id);
  void SetBegun(ReservationId id) { all_.at(id).begun = true; }

 private:
  const TenantReservation* Search(DeviceId device, absl::Time time) const;

  absl::btree_map<ReservationId, TenantReservation> all_;
  // By device, as far as they have any: by start.
  std::vector<absl::btree_map<absl::Time, ReservationId>> by_device_;
};

// "cpu:0 is reserved for research until 2026-11-24T12:00:00Z"; of one that is
// to come "from ... until ...".
std::string ReservedText(absl::string_view device,
                         const TenantReservation& reservation, absl::Time now);

}  // namespace gpupool::scheduler
