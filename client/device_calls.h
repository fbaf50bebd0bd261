// Calls of DeviceService that have no function in client.h, by their method:
//
//   v1::EmptyCacheRequest request;
//   request.set_device("cpu:0");
//   const auto freed = CallDevice(
//       client, &v1::DeviceService::Stub::EmptyCache, request);
//
// This header includes gRPC.
//
// Thread-safety: any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/connection.h"
#include "gpupool/v1/device.grpc.pb.h"

namespace gpupool::client {

template <typename Request, typename Response>
using DeviceMethod = grpc::Status (v1::DeviceService::Stub::*)(
    grpc::ClientContext*, const Request&, Response*);

// Calls the method. Retries it while the server is unavailable, unless
// `patience` says that a second call does harm. Status codes are the server's
// and those of client.h.
template <typename Request, typename Response>
absl::StatusOr<Response> CallDevice(
    Client& client, DeviceMethod<Request, Response> method,
    const Request& request,
    const Connection::Patience& patience = Connection::kRepeat) {
  Connection& connection = client.connection();
  v1::DeviceService::Stub stub(connection.channel());
  return connection.Call(stub, method, request, patience);
}

}  // namespace gpupool::client
