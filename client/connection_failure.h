// Why a connection to a server does not come about, in words for users.
//
// Pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "client/client.h"

namespace gpupool::client {

// Returns the reason and the remedy for a message of gRPC about a failed
// connection with these options. The message tells
//
//   * a server without TLS
//   * a certificate of an unknown authority, or for another host
//   * a socket of somebody else
//   * a server that ends the connection, since it wants TLS or a certificate
std::string ConnectionFailure(const TlsOptions& options,
                              absl::string_view message);

}  // namespace gpupool::client
