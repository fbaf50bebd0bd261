// Credentials of the channel to a server. Includes gRPC, so only connection.h
// and its users include it.
#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

// Reads and checks the files of `options`. Returns plain credentials when no
// authority is given. InvalidArgument for a certificate without its key,
// without an authority, and for a file that cannot be used, with the remedy.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsOf(
    const TlsOptions& options);

}  // namespace gpupool::client
