// Private to server/control: reservations of devices for a tenant.
// reservation.proto is their contract; forms and ranges that need no state are
// checked before (server/api/reservation_check).
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gpupool/v1/reservation.pb.h"
#include "scheduler/reservations.h"
#include "server/control/context.h"
#include "server/control/control_loop.h"

namespace gpupool::server {

// Of those that have ended or were cancelled so many are kept, the last ones.
inline constexpr size_t kKeptReservations = 1000;
// The longest that one may last, and lie ahead.
inline constexpr absl::Duration kLongestReservation = absl::Hours(24 * 366);

void CreateReservation(const ControlContext& context,
                       const v1::CreateReservationRequest& request,
                       ControlLoop::Callback<v1::Reservation> callback);
void CancelReservation(const ControlContext& context,
                       const v1::CancelReservationRequest& request,
                       ControlLoop::Callback<v1::Reservation> callback);
absl::StatusOr<v1::ListReservationsResponse> ListReservations(
    const Store& store, const v1::ListReservationsRequest& request,
    absl::Time now);

// It was not cancelled. Devices that are not configured any more are left out.
scheduler::TenantReservation ToSchedulerReservation(
    const v1::Reservation& row, const scheduler::State& state);

}  // namespace gpupool::server
