// The gRPC sides of ModelInfer and ModelStreamInfer. Both reactors destroy
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

// Responses come in the order of the requests. At most kMaxStreamRequests are
// read ahead of the oldest unanswered one.
inline constexpr size_t kMaxStreamRequests = 64;

grpc::ServerBidiReactor<inference::ModelInferRequest,
                        inference::ModelStreamInferResponse>*
StartInferStream(const InferContext& infer_context,
                 grpc::CallbackServerContext* context);

// When the client stops waiting; InfiniteFuture when it said nothing.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

}  // namespace gpupool::server
