#include "server/api/services/reservation_service.h"

#include "server/api/rpc/unary.h"
#include "server/api/validation/reservation_check.h"
#include "server/control/calls/context.h"
#include "server/control/devices/reservation_requests.h"
#include "server/store/store.h"

namespace gpupool::server {

grpc::ServerUnaryReactor* ReservationService::CreateReservation(
    grpc::CallbackServerContext* context,
    const v1::CreateReservationRequest* request, v1::Reservation* response) {
  const absl::Status checked = CheckReservation(*request);
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::CreateReservation(*control_, *request, ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* ReservationService::ListReservations(
    grpc::CallbackServerContext* context,
    const v1::ListReservationsRequest* request,
    v1::ListReservationsResponse* response) {
  return Reply(
      context,
      server::ListReservations(*control_->store, *request, control_->now()),
      response);
}

grpc::ServerUnaryReactor* ReservationService::CancelReservation(
    grpc::CallbackServerContext* context,
    const v1::CancelReservationRequest* request, v1::Reservation* response) {
  const absl::Status checked = CheckCancelReservation(*request);
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::CancelReservation(*control_, *request, ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
