// absl::Status to grpc::Status. The codes are the same numbers; the
// table of what they mean to a client is in ARCHITECTURE.md.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace gpupool::server {

// Long texts are cut so that they pass gRPC's limit on trailers.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace gpupool::server
