// Credentials of the gRPC port.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>

#include "server/api/rpc/method_guard.h"
#include "tls/tls_files.h"

namespace gpupool::server {

// Returns credentials of a port whose calls the guard checks; null: none is
// checked.
using CredentialsFor = std::function<std::shared_ptr<grpc::ServerCredentials>(
    const std::shared_ptr<MethodGuard>& guard)>;

// Returns a maker of credentials for TLS 1.2 and 1.3 with these files, which
// must have been checked (tls::ReadServerFiles), or for plain connections when
// TLS is off. If there are authorities of clients, a client without a
// certificate of one of them is refused.
//
// A thread, which all credentials of the maker share, reads the files every
// `reload_seconds`. Connections that begin after a change use the new contents.
// While a certificate and a key do not belong together, no connection begins.
CredentialsFor ServerCredentialsOf(const tls::TlsFiles& files,
                                   unsigned reload_seconds);

}  // namespace gpupool::server
