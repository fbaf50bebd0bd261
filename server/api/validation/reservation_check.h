// Forms and ranges of requests about reservations, as convert.h has them for
// others: InvalidArgument with the field, its value and the limit, or OK. What
// needs the pool (its devices, tenants, other reservations) is checked by
// server/control/devices/reservation_requests.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/reservation.pb.h"

namespace gpupool::server {

absl::Status CheckReservation(const v1::CreateReservationRequest& request);
absl::Status CheckCancelReservation(
    const v1::CancelReservationRequest& request);

}  // namespace gpupool::server
