#include "server/auth/token_book.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "server/auth/secret.h"

namespace gpupool::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr absl::Duration kUseInterval = absl::Minutes(1);

absl::Time TimeOf(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixMicros(TimeUtil::TimestampToMicroseconds(timestamp));
}

// Says the same for secrets of unknown, revoked and malformed tokens.
absl::Status Unknown() {
  return absl::UnauthenticatedError(
      "the server does not know this token, or it was revoked; ask an admin "
      "for a new one (gpupool tokens create)");
}

}  // namespace

bool IsLive(const v1::Token& token, absl::Time now) {
  if (token.has_revoke_time()) return false;
  return !token.has_expire_time() || now < TimeOf(token.expire_time());
}

void TokenBook::Put(const v1::StoredToken& stored) {
  absl::MutexLock lock(&mutex_);
  const uint64_t id = stored.token().id();
  Entry& entry = entries_[id];
  entry.stored = stored;
  entry.stored.mutable_token()->clear_last_use_time();
  if (stored.token().has_last_use_time()) {
    entry.last_use =
        std::max(entry.last_use, TimeOf(stored.token().last_use_time()));
  }
  ids_[stored.secret_sha256()] = id;
}

absl::StatusOr<Identity> TokenBook::Find(absl::string_view secret,
                                         absl::Time now) {
  if (!IsSecret(secret)) return Unknown();
  const std::string digest = DigestOf(secret);
  std::function<void(uint64_t, absl::Time)> note;
  Identity identity;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = ids_.find(digest);
    if (found == ids_.end()) return Unknown();
    Entry& entry = entries_.at(found->second);
    const v1::Token& token = entry.stored.token();
    // A role that this build does not know would compare as more than an admin.
    if (!EqualInConstantTime(entry.stored.secret_sha256(), digest) ||
        token.has_revoke_time() || !v1::Role_IsValid(token.role())) {
      return Unknown();
    }
    if (!IsLive(token, now)) {
      return absl::UnauthenticatedError(
          absl::StrCat("token ", token.id(), " expired at ",
                       TimeUtil::ToString(token.expire_time()),
                       "; ask an admin for a new one (gpupool tokens create)"));
    }
    identity = {.token = token.id(),
                .name = token.name(),
                .tenant = token.tenant(),
                .role = token.role()};
    if (now - entry.last_use >= kUseInterval) {
      entry.last_use = now;
      note = note_;
    }
  }
  if (note != nullptr) note(identity.token, now);
  return identity;
}

absl::StatusOr<v1::StoredToken> TokenBook::Get(uint64_t id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return absl::NotFoundError(
        absl::StrCat("there is no token ", id, "; see `gpupool tokens list`"));
  }
  return found->second.stored;
}

std::vector<v1::Token> TokenBook::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::Token> tokens;
  tokens.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) tokens.push_back(TokenOf(entry));
  return tokens;
}

size_t TokenBook::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

void TokenBook::OnUse(std::function<void(uint64_t, absl::Time)> note) {
  absl::MutexLock lock(&mutex_);
  note_ = std::move(note);
}

v1::Token TokenBook::TokenOf(const Entry& entry) {
  v1::Token token = entry.stored.token();
  if (entry.last_use > absl::InfinitePast()) {
    *token.mutable_last_use_time() =
        TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(entry.last_use));
  }
  return token;
}

}  // namespace gpupool::server
