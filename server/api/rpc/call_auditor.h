// Private to server/api: notes calls in the audit log when they end. It watches
// every call that reaches a handler, also those of the HTTP port, which come
// over the in-process channel. The gate notes those that it denies before.
//
//   * kChanges, and methods that are not in the table: every call
//   * kReads: calls that a handler denies
//   * kInfers, health and reflection: none
//
// Thread-safety: gRPC calls the auditor of a call from several threads; it has
// a lock. Ownership: the gate must outlive the server.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <vector>

#include "server/auth/access_gate.h"

namespace gpupool::server {

// Returns what a server needs to have its calls noted; empty if the gate has no
// audit log.
std::vector<
    std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
CallAuditors(AccessGate* gate);

}  // namespace gpupool::server
