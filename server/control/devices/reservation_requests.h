// Handles requests about reservations of devices for a tenant;
// reservation.proto is their contract. Forms and ranges that need no state are
// checked before (server/api/validation/reservation_check).
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

// Number of the latest ended or cancelled reservations that are kept.
inline constexpr size_t kKeptReservations = 1000;
// Limit of a reservation's length, and of the time until it begins.
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

// Converts a reservation that was not cancelled. Leaves out devices that are
// not configured any more.
scheduler::TenantReservation ToSchedulerReservation(
    const v1::Reservation& row, const scheduler::State& state);

}  // namespace gpupool::server
