// Checks the form and the ranges of requests about reservations by the rules of
// convert.h: InvalidArgument with the field, its value and the limit, or OK.
// Checks that need the pool (its devices, tenants, other reservations) are in
// server/control/devices/reservation_requests.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/reservation.pb.h"

namespace gpupool::server {

absl::Status CheckReservation(const v1::CreateReservationRequest& request);
absl::Status CheckCancelReservation(
    const v1::CancelReservationRequest& request);

}  // namespace gpupool::server
