#include "server/auth/access_gate.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/auth/call_record.h"
#include "server/auth/method_roles.h"
#include "server/auth/secret.h"

namespace gpupool::server {
namespace {

// Methods of clients that are quoted in messages are cut to this length.
constexpr size_t kMostOfMethod = 120;

constexpr char kTokenPlaces[] =
    "--token-file, GPUPOOL_TOKEN_FILE or GPUPOOL_TOKEN, in other "
    "clients with the header \"authorization: Bearer TOKEN\"";

// Returns whether a header names the scheme of tokens and has no token, as that
// of a script whose variable is empty.
bool LacksToken(absl::string_view authorization) {
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(authorization),
                                kEmptyAuthorization);
}

}  // namespace

AccessGate::AccessGate(FreeCallers free, std::function<absl::Time()> now)
    : free_(free), own_uid_(geteuid()), now_(std::move(now)) {}

absl::StatusOr<Identity> AccessGate::Admit(absl::string_view method,
                                           absl::string_view authorization,
                                           const Caller& caller) {
  if (!checks_calls()) return Identity{};
  absl::StatusOr<Identity> identity = Decide(method, authorization, caller);
  if (identity.ok() || log_ == nullptr) return identity;
  audit::Record record = RecordOf(*this, authorization, caller);
  SetOutcome(identity.status().code(), &record);
  record.method = std::string(method.substr(0, kMostOfMethod));
  log_->Note(std::move(record));
  return identity;
}

absl::StatusOr<Identity> AccessGate::Decide(absl::string_view method,
                                            absl::string_view authorization,
                                            const Caller& caller) {
  const std::optional<v1::Role> least = LeastRoleFor(method);
  if (least == v1::ROLE_UNSPECIFIED) {
    return Identity{.role = v1::ROLE_UNSPECIFIED};
  }
  // Before the method, so that callers without a token learn of none.
  absl::StatusOr<Identity> identity = Identify(authorization, caller);
  if (!identity.ok()) return identity;
  if (!least.has_value()) {
    // Lets a handler say that it has no such method.
    if (identity->token == 0 && free_ != FreeCallers::kNone) return identity;
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
                                              const Caller& caller) {
  if (!checks_calls()) return Identity{};
  if (LacksToken(authorization)) {
    return absl::UnauthenticatedError(
        "the header authorization has no token; send \"Bearer TOKEN\", or "
        "leave "
        "the header out where no token is needed");
  }
  const absl::string_view secret = SecretIn(authorization);
  // Headers that are no tokens of ours, such as those of a proxy, count only
  // where tokens are wanted.
  const bool silent = authorization.empty() ||
                      (free_ != FreeCallers::kNone && !IsSecret(secret));
  if (silent && IsFree(caller)) {
    const bool certificate =
        free_ == FreeCallers::kCertificates && caller.door == Door::kPort;
    return Identity{.name = certificate ? "certificate" : "local user"};
  }
  if (authorization.empty()) return WantsToken(caller);
  if (secret.empty()) {
    return absl::UnauthenticatedError(
        "the header authorization must be \"Bearer TOKEN\"");
  }
  return tokens_.Find(secret, now_());
}

bool AccessGate::IsFree(const Caller& caller) const {
  if (caller.door == Door::kSocket) return true;
  switch (free_) {
    case FreeCallers::kAll:
    case FreeCallers::kCertificates:
      return true;
    case FreeCallers::kOwnUsers:
      return caller.admitted || caller.user.uid == own_uid_ ||
             caller.user.uid == uid_t{0};
    case FreeCallers::kNone:
      return false;
  }
  return false;
}

absl::Status AccessGate::WantsToken(const Caller& caller) const {
  if (free_ == FreeCallers::kNone) {
    return absl::UnauthenticatedError(
        absl::StrCat("the server wants a token; give one with ", kTokenPlaces));
  }
  std::string who = "a user of this machine whom the system does not name";
  if (caller.user.other_machine) who = "callers on other machines";
  if (caller.user.uid.has_value()) who = absl::StrCat("uid ", *caller.user.uid);
  return absl::UnauthenticatedError(absl::StrCat(
      "the server wants a token from ", who, ": without one only ",
      own_uid_ == 0 ? "" : absl::StrCat("its user, uid ", own_uid_, ", and "),
      "root may call, from its machine; call as such a user, or give a token "
      "(gpupool tokens create) with ",
      kTokenPlaces));
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
