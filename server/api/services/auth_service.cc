#include "server/api/services/auth_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/api/rpc/unary.h"
#include "server/api/validation/convert.h"
#include "server/auth/method_roles.h"
#include "server/auth/secret.h"
#include "server/control/calls/context.h"
#include "server/control/records/rows.h"
#include "server/control/upkeep/token_requests.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kLongestLife = absl::Hours(24 * 3650);

absl::Status CheckRole(const v1::CreateTokenRequest& request) {
  const v1::Role role = request.role();
  if (!v1::Role_IsValid(role) || role == v1::ROLE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "role must be VIEWER, USER, OPERATOR or ADMIN");
  }
  if (!request.tenant().empty() || role >= v1::OPERATOR) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a token of role ", RoleName(role), " needs a tenant; give one"));
}

// Looks at the seconds alone, since larger ones fit no time.
absl::Status CheckExpiry(const google::protobuf::Timestamp& time,
                         absl::Time now) {
  if (time.seconds() > absl::ToUnixSeconds(now + kLongestLife)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expire_time is more than ", absl::ToInt64Hours(kLongestLife) / 24,
        " days away; choose an earlier one, or none"));
  }
  if (time.seconds() > absl::ToUnixSeconds(now) && time.nanos() >= 0 &&
      time.nanos() < 1'000'000'000) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "expire_time has passed or is none; choose a time in the future");
}

absl::Status CheckNewToken(const v1::CreateTokenRequest& request,
                           absl::Time now) {
  RETURN_IF_ERROR(CheckRole(request));
  if (!request.name().empty()) {
    RETURN_IF_ERROR(CheckName("name", request.name()));
  }
  if (!request.tenant().empty()) {
    RETURN_IF_ERROR(CheckTenant(request.tenant()));
  }
  return request.has_expire_time() ? CheckExpiry(request.expire_time(), now)
                                   : absl::OkStatus();
}

v1::StoredToken NewToken(const v1::CreateTokenRequest& request,
                         const std::string& secret, absl::Time now) {
  v1::StoredToken stored;
  v1::Token& token = *stored.mutable_token();
  token.set_name(request.name());
  token.set_tenant(request.tenant());
  token.set_role(request.role());
  *token.mutable_create_time() = ToTimestamp(now);
  if (request.has_expire_time()) {
    *token.mutable_expire_time() = request.expire_time();
  }
  stored.set_secret_sha256(DigestOf(secret));
  return stored;
}

}  // namespace

absl::Status AuthService::CheckOn() const {
  if (gate_ != nullptr && gate_->checks_calls()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the server runs with --auth none, so that tokens do not count; start it "
      "with --auth local or --auth tokens");
}

grpc::ServerUnaryReactor* AuthService::CreateToken(
    grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
    v1::CreateTokenResponse* response) {
  absl::Status checked = CheckOn();
  if (!checked.ok()) return Reply(context, checked);
  // The clock that decides when the token ends.
  const absl::Time now = gate_->now();
  checked = CheckNewToken(*request, now);
  if (checked.ok() && gate_->tokens().size() >= TokenBook::kMostTokens) {
    checked = absl::ResourceExhaustedError(absl::StrCat(
        "there are ", TokenBook::kMostTokens,
        " tokens, which is the most; revoke some, which are forgotten at a "
        "start 30 days later"));
  }
  if (!checked.ok()) return Reply(context, checked);
  const absl::StatusOr<std::string> secret = NewSecret();
  if (!secret.ok()) return Reply(context, secret.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  StoreToken(*control_, NewToken(*request, *secret, now),
             [this, reactor, response,
              secret = *secret](const absl::StatusOr<v1::StoredToken>& row) {
               if (row.ok()) {
                 gate_->tokens().Put(*row);
                 *response->mutable_token() = row->token();
                 response->set_secret(secret);
               }
               reactor->Finish(ToGrpc(row.status()));
             });
  return reactor;
}

grpc::ServerUnaryReactor* AuthService::ListTokens(
    grpc::CallbackServerContext* context, const v1::ListTokensRequest*,
    v1::ListTokensResponse* response) {
  const absl::Status checked = CheckOn();
  if (!checked.ok()) return Reply(context, checked);
  for (v1::Token& token : gate_->tokens().List()) {
    *response->add_tokens() = std::move(token);
  }
  return Reply(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* AuthService::RevokeToken(
    grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
    v1::Token* response) {
  absl::Status checked = CheckOn();
  if (checked.ok()) checked = CheckId("id", request->id());
  if (!checked.ok()) return Reply(context, checked);
  absl::StatusOr<v1::StoredToken> stored = gate_->tokens().Get(request->id());
  if (!stored.ok()) return Reply(context, stored.status());
  if (stored->token().has_revoke_time()) {
    *response = stored->token();
    return Reply(context, absl::OkStatus());
  }
  *stored->mutable_token()->mutable_revoke_time() = ToTimestamp(gate_->now());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  StoreToken(
      *control_, *stored,
      [this, reactor, response](const absl::StatusOr<v1::StoredToken>& row) {
        if (row.ok()) {
          gate_->tokens().Put(*row);
          *response = row->token();
        }
        reactor->Finish(ToGrpc(row.status()));
      });
  return reactor;
}

}  // namespace gpupool::server
