#include "scheduler/state/reservations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::scheduler {
namespace {

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

}  // namespace

bool TenantReservation::Takes(absl::string_view job_tenant) const {
  return absl::StartsWith(job_tenant, tenant) &&
         (job_tenant.size() == tenant.size() ||
          // Tenants form a tree with dots. "a" takes "a.b", but not "ab".
          job_tenant[tenant.size()] == '.');
}

const TenantReservation* Reservations::Find(ReservationId id) const {
  const auto it = all_.find(id);
  return it == all_.end() ? nullptr : &it->second;
}

const TenantReservation* Reservations::Search(DeviceId device,
                                              absl::Time time) const {
  if (device.value() >= by_device_.size()) return nullptr;
  const auto& starts = by_device_[device.value()];
  // The reservations of a device do not overlap, so only the last one that has
  // started can cover the time.
  auto next = starts.upper_bound(time);
  if (next == starts.begin()) return nullptr;
  const TenantReservation& last = all_.at((--next)->second);
  return last.Covers(time) ? &last : nullptr;
}

std::vector<const TenantReservation*> Reservations::Of(DeviceId device) const {
  std::vector<const TenantReservation*> found;
  if (device.value() >= by_device_.size()) return found;
  for (const auto& [start, id] : by_device_[device.value()]) {
    found.push_back(&all_.at(id));
  }
  return found;
}

const TenantReservation* Reservations::Against(DeviceId device,
                                               const Visitor& visitor,
                                               absl::Time time) const {
  if (device.value() >= by_device_.size()) return nullptr;
  for (const auto& [start, id] : by_device_[device.value()]) {
    const bool is_to_come = start > time;
    // The list is sorted by starts. If this one begins too late to matter, so
    // do all that follow.
    if (is_to_come &&
        (start - time >= visitor.least_run || start - time >= visitor.left)) {
      return nullptr;
    }
    const TenantReservation& reservation = all_.at(id);
    if (reservation.end > time && !reservation.Takes(visitor.tenant)) {
      return &reservation;
    }
  }
  return nullptr;
}

bool Reservations::Name(absl::string_view job_tenant) const {
  return std::any_of(all_.begin(), all_.end(), [&](const auto& entry) {
    return entry.second.Takes(job_tenant);
  });
}

absl::Time Reservations::NextChange() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, reservation] : all_) {
    next =
        std::min(next, reservation.begun ? reservation.end : reservation.start);
  }
  return next;
}

void Reservations::Add(TenantReservation reservation) {
  for (DeviceId device : reservation.devices) {
    if (device.value() >= by_device_.size()) {
      by_device_.resize(device.value() + 1);
    }
    by_device_[device.value()].emplace(reservation.start, reservation.id);
  }
  const ReservationId id = reservation.id;
  all_.emplace(id, std::move(reservation));
}

void Reservations::Remove(ReservationId id) {
  const auto it = all_.find(id);
  if (it == all_.end()) return;
  for (DeviceId device : it->second.devices) {
    by_device_[device.value()].erase(it->second.start);
  }
  all_.erase(it);
}

std::string ReservedText(absl::string_view device,
                         const TenantReservation& reservation, absl::Time now) {
  return absl::StrCat(device, " is reserved for ", reservation.tenant,
                      reservation.start > now
                          ? absl::StrCat(" from ", TimeText(reservation.start))
                          : "",
                      " until ", TimeText(reservation.end));
}

}  // namespace gpupool::scheduler
