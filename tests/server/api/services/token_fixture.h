// The gRPC endpoint with a gate that wants tokens.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/auth/access_gate.h"
#include "server/auth/secret.h"
#include "tests/server/api/api_fixture.h"

namespace gpupool::server {

class TokenFixture : public ApiFixture {
 protected:
  AccessGate* Gate() override { return &gate_; }

  // Lets the gate know a token, and returns its header.
  std::string HeaderOf(const std::string& tenant, v1::Role role) {
    const std::string secret = *NewSecret();
    v1::StoredToken stored;
    stored.mutable_token()->set_id(++last_id_);
    stored.mutable_token()->set_tenant(tenant);
    stored.mutable_token()->set_role(role);
    stored.set_secret_sha256(DigestOf(secret));
    gate_.tokens().Put(stored);
    return "Bearer " + secret;
  }

  // Makes unary calls with a header.
  class Caller {
   public:
    explicit Caller(std::string header) : header_(std::move(header)) {}

    template <typename Stub, typename Request, typename Response>
    grpc::Status Call(Stub& stub,
                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                   const Request&, Response*),
                      const Request& request, Response* response) const {
      grpc::ClientContext context;
      if (!header_.empty()) context.AddMetadata("authorization", header_);
      return (stub.*method)(&context, request, response);
    }

   private:
    const std::string header_;
  };

  static Caller As(const std::string& header) { return Caller(header); }

  AccessGate gate_{FreeCallers::kNone, absl::Now};
  uint64_t last_id_ = 1'000'000;  // unlike the ids of the store
};

}  // namespace gpupool::server
