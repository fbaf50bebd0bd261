// The tokens that the server knows, in memory. The store has the same rows;
// whoever changes a row there puts it here after the commit.
//
// Thread-safety: any thread. No function blocks for long, so that the threads
// of ports may call them. Ownership: none of anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gpupool/v1/auth.pb.h"

namespace gpupool::server {

// A caller, as its token says. By default an admin without a token.
struct Identity {
  // Returns whether the caller sees and changes only what its tenant has.
  bool is_bound() const { return role < v1::OPERATOR; }

  // 0: none, since the server runs without tokens, or the call came over the
  // socket.
  uint64_t token = 0;
  std::string name;    // of the token
  std::string tenant;  // empty: none
  v1::Role role = v1::ADMIN;
};

class TokenBook {
 public:
  // At most this many tokens are kept, also revoked and expired ones.
  static constexpr size_t kMostTokens = 10'000;

  // Takes a new token, or a newer row of a known one.
  void Put(const v1::StoredToken& stored);

  // Returns whose secret it is, and notes the use. Unauthenticated, with the
  // remedy, for a secret that is unknown, revoked or expired.
  absl::StatusOr<Identity> Find(absl::string_view secret, absl::Time now);

  // Returns NotFound for an unknown id.
  absl::StatusOr<v1::StoredToken> Get(uint64_t id) const;

  // Returns all tokens by rising id, with their last uses.
  std::vector<v1::Token> List() const;
  size_t size() const;

  // Makes Find call `note` with the id of a token that is used, at most once a
  // minute for each token. `note` must not block. Empty: no calls.
  void OnUse(std::function<void(uint64_t id, absl::Time now)> note);

 private:
  struct Entry {
    v1::StoredToken stored;
    absl::Time last_use = absl::InfinitePast();
  };

  static v1::Token TokenOf(const Entry& entry);

  mutable absl::Mutex mutex_;
  std::map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, uint64_t> ids_
      ABSL_GUARDED_BY(mutex_);  // by digest
  std::function<void(uint64_t, absl::Time)> note_ ABSL_GUARDED_BY(mutex_);
};

// Returns whether the token may be used at this time.
bool IsLive(const v1::Token& token, absl::Time now);

}  // namespace gpupool::server
