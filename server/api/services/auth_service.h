// Implements AuthService of gpupool.v1; auth.proto is its contract. Who may
// call it is decided before, by the table of methods.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/auth.grpc.pb.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {

struct ControlContext;

class AuthService : public v1::AuthService::CallbackService {
 public:
  // Both must outlive the service. Without a gate there are no tokens.
  AuthService(const ControlContext* control, AccessGate* gate)
      : control_(control), gate_(gate) {}

  grpc::ServerUnaryReactor* CreateToken(
      grpc::CallbackServerContext* context,
      const v1::CreateTokenRequest* request,
      v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(
      grpc::CallbackServerContext* context,
      const v1::ListTokensRequest* request,
      v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const v1::RevokeTokenRequest* request,
                                        v1::Token* response) override;

 private:
  // Returns FailedPrecondition unless tokens count.
  absl::Status CheckOn() const;

  const ControlContext* const control_;
  AccessGate* const gate_;
};

}  // namespace gpupool::server
