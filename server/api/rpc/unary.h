// Private to server/api: answers of unary handlers with the callback API.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/rpc/grpc_status.h"

namespace gpupool::server {

// Answers at once.
inline grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context,
                                       const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

template <typename Response>
grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context,
                                absl::StatusOr<Response> result,
                                Response* response) {
  if (result.ok()) *response = std::move(*result);
  return Reply(context, result.status());
}

// Returns a function for calls that answer later. Call it once: it fills in
// `response` and ends the rpc.
template <typename Response>
std::function<void(absl::StatusOr<Response>)> ReplyLater(
    grpc::ServerUnaryReactor* reactor, Response* response) {
  return [reactor, response](absl::StatusOr<Response> result) {
    if (result.ok()) *response = std::move(*result);
    reactor->Finish(ToGrpc(result.status()));
  };
}

}  // namespace gpupool::server
