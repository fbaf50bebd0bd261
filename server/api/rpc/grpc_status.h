// Converts absl::Status to and from grpc::Status. The codes have the same
// numbers. ARCHITECTURE.md says what they mean to a client.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace gpupool::server {

// Converts the status. Cuts long texts to gRPC's limit on trailers.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace gpupool::server
