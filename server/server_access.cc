#include "server/server_access.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/auth/secret.h"
#include "server/control/upkeep/token_requests.h"
#include "server/state_dir.h"
#include "server/store/store.h"
#include "tls/pem.h"

namespace gpupool::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr absl::Duration kEndedTokensKept = absl::Hours(24 * 30);

// Returns whether the token has worked at some time since `time`.
bool WorkedSince(const v1::Token& token, absl::Time time) {
  v1::Token before = token;
  if (token.has_revoke_time() &&
      absl::FromUnixMicros(
          TimeUtil::TimestampToMicroseconds(token.revoke_time())) > time) {
    before.clear_revoke_time();
  }
  return IsLive(before, time);
}

// Deletes the tokens that ended long ago from `tokens` and from the store.
absl::Status ForgetOld(Store* store, absl::Time now,
                       std::vector<v1::StoredToken>* tokens) {
  WriteBatch batch;
  const auto end = std::remove_if(
      tokens->begin(), tokens->end(), [&](const v1::StoredToken& stored) {
        if (WorkedSince(stored.token(), now - kEndedTokensKept)) return false;
        batch.delete_tokens.push_back(stored.token().id());
        return true;
      });
  tokens->erase(end, tokens->end());
  return batch.empty() ? absl::OkStatus() : store->Commit(batch);
}

bool HasAdmin(const std::vector<v1::StoredToken>& tokens, absl::Time now) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const v1::StoredToken& stored) {
                       return stored.token().role() == v1::ADMIN &&
                              IsLive(stored.token(), now);
                     });
}

// Makes the token of the first admin. The file comes first: a token whose
// secret nobody has would be in the way of another one.
absl::StatusOr<v1::StoredToken> MakeAdmin(const std::string& file, Store* store,
                                          absl::Time now) {
  ASSIGN_OR_RETURN(const std::string secret, NewSecret());
  RETURN_IF_ERROR(WriteFileAtomically(file, secret + "\n", 0600));
  v1::StoredToken stored;
  stored.set_secret_sha256(DigestOf(secret));
  v1::Token& token = *stored.mutable_token();
  token.set_id(store->AllocateId(IdKind::kToken));
  token.set_name("first-admin");
  token.set_role(v1::ADMIN);
  *token.mutable_create_time() =
      TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(now));
  RETURN_IF_ERROR(store->Commit({.upsert_tokens = {stored}}));
  return stored;
}

}  // namespace

absl::Status CheckTls(const tls::TlsFiles& files, absl::Time now) {
  if (!files.on()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const tls::ServerPem pem, tls::ReadServerFiles(files, now));
  spdlog::info(
      "TLS is on certificate={} expires={} client_certificates={}",
      files.certificate,
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", tls::ExpiryOf(pem.own.certificate),
                       absl::UTCTimeZone()),
      pem.client_authorities.empty() ? "no" : "required");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<AccessGate>> OpenGate(
    const std::string& auth, const std::string& state_dir, Store* store,
    std::function<absl::Time()> now) {
  const absl::Time start = now();
  auto gate = std::make_unique<AccessGate>(auth == "tokens", std::move(now));
  if (!gate->wants_tokens()) return gate;
  ASSIGN_OR_RETURN(std::vector<v1::StoredToken> tokens, store->LoadTokens());
  RETURN_IF_ERROR(ForgetOld(store, start, &tokens));
  const std::string file = absl::StrCat(state_dir, "/", kAdminTokenFile);
  if (HasAdmin(tokens, start)) {
    spdlog::info("each call needs a token tokens={}", tokens.size());
  } else {
    ASSIGN_OR_RETURN(v1::StoredToken admin, MakeAdmin(file, store, start));
    tokens.push_back(std::move(admin));
    spdlog::info(
        "each call needs a token; one of an admin was made file={} "
        "use=\"GPUPOOL_TOKEN_FILE={} gpupool tokens list\"",
        file, file);
  }
  for (const v1::StoredToken& stored : tokens) gate->tokens().Put(stored);
  return gate;
}

void NoteTokenUses(AccessGate* gate, const ControlContext* control) {
  gate->tokens().OnUse([control](uint64_t id, absl::Time now) {
    NoteTokenUse(*control, id, now);
  });
}

}  // namespace gpupool::server
