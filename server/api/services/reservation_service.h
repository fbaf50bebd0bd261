// Implements ReservationService of gpupool.v1; reservation.proto is its
// contract.
#pragma once

#include "gpupool/v1/reservation.grpc.pb.h"

namespace gpupool::server {

struct ControlContext;

class ReservationService : public v1::ReservationService::CallbackService {
 public:
  // `control` must outlive the service.
  explicit ReservationService(const ControlContext* control)
      : control_(control) {}

  grpc::ServerUnaryReactor* CreateReservation(
      grpc::CallbackServerContext* context,
      const v1::CreateReservationRequest* request,
      v1::Reservation* response) override;
  grpc::ServerUnaryReactor* ListReservations(
      grpc::CallbackServerContext* context,
      const v1::ListReservationsRequest* request,
      v1::ListReservationsResponse* response) override;
  grpc::ServerUnaryReactor* CancelReservation(
      grpc::CallbackServerContext* context,
      const v1::CancelReservationRequest* request,
      v1::Reservation* response) override;

 private:
  const ControlContext* const control_;
};

}  // namespace gpupool::server
