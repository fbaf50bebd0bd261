// Reservations of devices for a tenant: their begin and end.
#include <vector>

#include "scheduler/step/step_context.h"

namespace gpupool::scheduler {
namespace {

// Marks the devices as changed, so that readers see the reservation.
void TouchDevices(StepContext& context, const TenantReservation& reservation) {
  for (DeviceId device : reservation.devices) context.Touch(device);
}

// Removes the reservation, which must be known.
void Remove(StepContext& context, ReservationId id) {
  TouchDevices(context, *context.state.reservations().Find(id));
  context.edit.RemoveReservation(id);
}

// Takes the devices from jobs of other tenants that hold or reserve them.
void ClaimDevices(StepContext& context, const TenantReservation& reservation) {
  for (DeviceId id : reservation.devices) {
    const auto reserved_for = context.state.devices().at(id).reserved_for;
    if (!reserved_for) continue;
    Job& job = *context.edit.FindJob(*reserved_for);
    if (!reservation.Takes(job.tenant)) context.edit.Unreserve(job);
  }
  for (const QueueKey& key : context.state.queue()) {
    Job& job = *context.edit.FindJob(key.job);
    if (job.held_devices.empty() || reservation.Takes(job.tenant)) continue;
    for (DeviceId id : reservation.devices) {
      if (!job.held_devices.contains(id)) continue;
      job.held_devices.clear();
      break;
    }
  }
}

void SendAway(StepContext& context, const TenantReservation& reservation,
              DeviceId device) {
  for (JobId id : context.state.devices().at(device).jobs) {
    Job& job = *context.edit.FindJob(id);
    if (reservation.Takes(job.tenant) || IsStopping(job)) continue;
    Preempt(context, job,
            {.job = id,
             .reason = PreemptionReason::kReservation,
             .reserved_device = device});
  }
}

}  // namespace

void Apply(StepContext& context, const ReservationMade& event) {
  const TenantReservation& made = event.reservation;
  if (context.state.reservations().Find(made.id) != nullptr ||
      made.end <= context.state.now()) {
    return context.Stale();
  }
  context.edit.AddReservation(made);
  TouchDevices(context, made);
}

void Apply(StepContext& context, const ReservationCancelled& event) {
  if (context.state.reservations().Find(event.reservation) == nullptr) {
    return context.Stale();
  }
  Remove(context, event.reservation);
}

void EndReservations(StepContext& context) {
  if (context.state.reservations().NextChange() > context.state.now()) return;
  std::vector<ReservationId> ended;
  for (const auto& [id, reservation] : context.state.reservations().all()) {
    if (reservation.end <= context.state.now()) ended.push_back(id);
  }
  for (ReservationId id : ended) Remove(context, id);
}

void EnforceReservations(StepContext& context) {
  for (const auto& [id, reservation] : context.state.reservations().all()) {
    if (!reservation.Covers(context.state.now())) continue;
    if (!reservation.begun) {
      TouchDevices(context, reservation);
      ClaimDevices(context, reservation);
      context.edit.BeginReservation(id);
    }
    for (DeviceId device : reservation.devices) {
      SendAway(context, reservation, device);
    }
  }
}

void WatchReservations(StepContext& context) {
  const absl::Time next = context.state.reservations().NextChange();
  if (next == absl::InfiniteFuture() || !context.edit.ArmTimer(next)) return;
  context.Act(SetTimer{next});
}

}  // namespace gpupool::scheduler
