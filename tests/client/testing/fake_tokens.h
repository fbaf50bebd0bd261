// AuthService of the fake server. It knows token 3.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "gpupool/v1/auth.grpc.pb.h"
#include "tests/client/testing/fake_server.h"

namespace gpupool::client {

class FakeTokens final : public v1::AuthService::Service {
 public:
  explicit FakeTokens(FakeState& state) : state_(state) {}

  grpc::Status CreateToken(grpc::ServerContext*,
                           const v1::CreateTokenRequest* request,
                           v1::CreateTokenResponse* response) override {
    absl::MutexLock lock(&state_.mutex);
    state_.token_request = *request;
    v1::Token& token = *response->mutable_token();
    token.set_id(3);
    token.set_tenant(request->tenant());
    token.set_role(request->role());
    if (request->has_expire_time()) {
      *token.mutable_expire_time() = request->expire_time();
    }
    response->set_secret("gpk_secret");
    return grpc::Status::OK;
  }

  grpc::Status ListTokens(grpc::ServerContext* context,
                          const v1::ListTokensRequest*,
                          v1::ListTokensResponse* response) override {
    absl::MutexLock lock(&state_.mutex);
    const auto header = context->client_metadata().find("authorization");
    if (header != context->client_metadata().end()) {
      state_.authorization =
          std::string(header->second.data(), header->second.size());
    }
    v1::Token& token = *response->add_tokens();
    token.set_id(3);
    token.set_name("mia");
    token.set_tenant("lab");
    token.set_role(v1::USER);
    return grpc::Status::OK;
  }

  grpc::Status RevokeToken(grpc::ServerContext*,
                           const v1::RevokeTokenRequest* request,
                           v1::Token*) override {
    if (request->id() == 3) return grpc::Status::OK;
    return {grpc::StatusCode::NOT_FOUND, "there is no such token"};
  }

 private:
  FakeState& state_;
};

}  // namespace gpupool::client
