// Reservations of devices for a tenant. reservation.proto is their contract;
// forms and ranges that need no state are checked before
// (server/api/validation/reservation_check).
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class CancelReservationRequest;
class CreateReservationRequest;
class ListReservationsRequest;
class ListReservationsResponse;
class Reservation;
}  // namespace gpupool::v1
namespace gpupool::scheduler {
class State;
struct TenantReservation;
}  // namespace gpupool::scheduler

namespace gpupool::server {

class Store;
struct ControlContext;

// Of those that have ended or were cancelled so many are kept, the last ones.
inline constexpr size_t kKeptReservations = 1000;
// The longest that one may last, and lie ahead.
inline constexpr absl::Duration kLongestReservation = absl::Hours(24 * 366);

void CreateReservation(const ControlContext& context,
                       const v1::CreateReservationRequest& request,
                       Callback<v1::Reservation> callback);
void CancelReservation(const ControlContext& context,
                       const v1::CancelReservationRequest& request,
                       Callback<v1::Reservation> callback);
absl::StatusOr<v1::ListReservationsResponse> ListReservations(
    const Store& store, const v1::ListReservationsRequest& request,
    absl::Time now);

// It was not cancelled. Devices that are not configured any more are left out.
scheduler::TenantReservation ToSchedulerReservation(
    const v1::Reservation& row, const scheduler::State& state);

}  // namespace gpupool::server
