#include "server/auth/access_gate.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/auth/call_record.h"
#include "server/auth/method_roles.h"
#include "server/auth/secret.h"

namespace gpupool::server {
namespace {

// Methods of clients that are quoted in messages are cut to this length.
constexpr size_t kMostOfMethod = 120;

}  // namespace

AccessGate::AccessGate(bool wants_tokens, std::function<absl::Time()> now)
    : wants_tokens_(wants_tokens), now_(std::move(now)) {}

absl::StatusOr<Identity> AccessGate::Admit(absl::string_view method,
                                           absl::string_view authorization,
                                           Door door, absl::string_view peer) {
  if (!wants_tokens_) return Identity{};
  absl::StatusOr<Identity> identity = Decide(method, authorization, door);
  if (identity.ok() || log_ == nullptr) return identity;
  audit::Record record = RecordOf(*this, authorization, door);
  SetOutcome(identity.status().code(), &record);
  record.method = std::string(method.substr(0, kMostOfMethod));
  record.peer = std::string(peer);
  log_->Note(std::move(record));
  return identity;
}

absl::StatusOr<Identity> AccessGate::Decide(absl::string_view method,
                                            absl::string_view authorization,
                                            Door door) {
  const std::optional<v1::Role> least = LeastRoleFor(method);
  if (least == v1::ROLE_UNSPECIFIED) {
    return Identity{.role = v1::ROLE_UNSPECIFIED};
  }
  // Before the method, so that callers without a token learn of none.
  absl::StatusOr<Identity> identity = Identify(authorization, door);
  if (!identity.ok()) return identity;
  if (!least.has_value()) {
    return absl::PermissionDeniedError(
        absl::StrCat("nobody may call ", method.substr(0, kMostOfMethod),
                     ", which this server does not have"));
  }
  if (identity->role >= *least) return identity;
  return absl::PermissionDeniedError(absl::StrCat(
      method, " needs the role ", RoleName(*least), "; token ", identity->token,
      " has the role ", RoleName(identity->role)));
}

absl::StatusOr<Identity> AccessGate::Identify(absl::string_view authorization,
                                              Door door) {
  if (!wants_tokens_) return Identity{};
  if (authorization.empty() && door == Door::kSocket) {
    return Identity{.name = "local user"};
  }
  if (authorization.empty()) {
    return absl::UnauthenticatedError(
        "the server wants a token; give one with --token-file, "
        "GPUPOOL_TOKEN_FILE or GPUPOOL_TOKEN, in other clients with the header "
        "\"authorization: Bearer TOKEN\"");
  }
  const absl::string_view secret = SecretIn(authorization);
  if (secret.empty()) {
    return absl::UnauthenticatedError(
        "the header authorization must be \"Bearer TOKEN\"");
  }
  return tokens_.Find(secret, now_());
}

absl::Status AdoptTenant(const Identity& identity, std::string* tenant) {
  if (tenant->empty()) {
    *tenant = identity.tenant;
    return absl::OkStatus();
  }
  if (MaySee(identity, *tenant)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "token ", identity.token, " is of tenant \"", identity.tenant,
      "\", and the request names another one; leave the tenant out"));
}

bool MaySee(const Identity& identity, absl::string_view tenant) {
  return !identity.is_bound() || identity.tenant == tenant;
}

}  // namespace gpupool::server
