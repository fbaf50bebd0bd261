// The check of every call that comes over the gRPC port, before any handler
// sees it. Also of methods that nobody has registered, of health and of
// reflection. Calls over the in-process channel do not come by here: the HTTP
// port checks them.
//
// Thread-safety: any thread; nothing blocks. Ownership: the gate must outlive
// the server.
#pragma once

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {

class MethodGuard : public grpc::AuthMetadataProcessor {
 public:
  explicit MethodGuard(AccessGate* gate) : gate_(gate) {}

  // Runs on the thread that reads the call.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

  // Checks a call by its metadata, of which ":path" is the method.
  grpc::Status Check(const InputMetadata& metadata) const;

 private:
  AccessGate* const gate_;
};

// Returns the value of the header `authorization`. Empty if there is none. A
// text that is no token if there are several.
absl::string_view AuthorizationIn(
    const grpc::AuthMetadataProcessor::InputMetadata& metadata);

// Returns credentials of a plain port whose calls the guard checks. Those of
// gRPC take no guard.
std::shared_ptr<grpc::ServerCredentials> GuardedPlainCredentials(
    std::shared_ptr<MethodGuard> guard);

}  // namespace gpupool::server
