// The gRPC sides of ModelInfer and ModelStreamInfer. Both reactors delete
// themselves when gRPC is done with them.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "inference/grpc_service.grpc.pb.h"
#include "server/api/inference/infer_request.h"

namespace gpupool::server {

grpc::ServerUnaryReactor* StartInfer(
    const InferContext& infer_context, grpc::CallbackServerContext* context,
    const inference::ModelInferRequest* request,
    inference::ModelInferResponse* response);

// Limit of requests of a stream that are read and not answered. Responses come
// in the order of the requests, except those of decoupled versions, which come
// as they are given.
inline constexpr size_t kMaxStreamRequests = 64;

grpc::ServerBidiReactor<inference::ModelInferRequest,
                        inference::ModelStreamInferResponse>*
StartInferStream(const InferContext& infer_context,
                 grpc::CallbackServerContext* context);

// Returns the client's deadline; InfiniteFuture when it set none.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

}  // namespace gpupool::server
