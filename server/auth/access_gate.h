// Decides whether a caller may call a method: the one check behind the gRPC
// port and the HTTP port. Has the audit log too, in which it notes the calls
// that it denies.
//
// Thread-safety: any thread; nothing blocks. Ownership: owns its tokens and the
// audit log.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "audit/audit_log.h"
#include "server/auth/caller.h"
#include "server/auth/token_book.h"

namespace gpupool::server {

// The callers who need no token. Each is an admin without a tenant.
enum class FreeCallers {
  kAll,           // whoever reaches the server; tokens do not count
  kOwnUsers,      // the server's user and root, from this machine
  kCertificates,  // all, since the ports want certificates of clients
  kNone,          // nobody over TCP
};

// Stands for a header `authorization` that was sent without a value: a scheme
// without a token.
inline constexpr char kEmptyAuthorization[] = "Bearer";

class AccessGate {
 public:
  // `now` is the clock.
  AccessGate(FreeCallers free, std::function<absl::Time()> now);

  // Returns whether calls are checked and tokens count.
  bool checks_calls() const { return free_ != FreeCallers::kAll; }
  // Has the ports ask for users from now on, also if calls are not checked.
  // Call it before the ports open.
  void AskUsers() { asks_users_ = true; }
  // Returns whether the ports ask, once for each connection, whose the other
  // end is.
  bool asks_users() const { return asks_users_ || checks_calls(); }
  TokenBook& tokens() { return tokens_; }
  absl::Time now() const { return now_(); }

  // Has calls noted from now on. Call it before the ports open.
  void KeepRecords(std::unique_ptr<audit::AuditLog> log) {
    log_ = std::move(log);
  }
  // Returns null if nothing is noted.
  audit::AuditLog* log() const { return log_.get(); }

  // Checks a call of "/package.Service/Method" by the value of its header
  // `authorization`, which is empty if there is none, and kEmptyAuthorization
  // if it is sent without a value. A token that is sent counts, and so does one
  // that is sent empty, which is refused. Methods that are open to everybody
  // get an identity without role and tenant. Callers over the socket, and free
  // callers, are admins without a token. Errors:
  //   * Unauthenticated: no token, or one that is unknown, revoked or expired
  //   * PermissionDenied: the token's role may not call the method, or nobody
  //     may
  absl::StatusOr<Identity> Admit(absl::string_view method,
                                 absl::string_view authorization,
                                 const Caller& caller = {});

  // Returns who calls, without a look at the method.
  absl::StatusOr<Identity> Identify(absl::string_view authorization,
                                    const Caller& caller = {});

 private:
  absl::StatusOr<Identity> Decide(absl::string_view method,
                                  absl::string_view authorization,
                                  const Caller& caller);
  // Returns whether the caller needs no token.
  bool IsFree(const Caller& caller) const;
  // Returns the refusal of a caller without a token.
  absl::Status WantsToken(const Caller& caller) const;

  const FreeCallers free_;
  const uid_t own_uid_;
  const std::function<absl::Time()> now_;
  TokenBook tokens_;
  std::unique_ptr<audit::AuditLog> log_;
  bool asks_users_ = false;
};

// Fills in the tenant of a bound caller where a request names none. Does the
// same for a caller that is not bound but has a tenant. PermissionDenied if a
// bound caller names another tenant.
absl::Status AdoptTenant(const Identity& identity, std::string* tenant);

// Returns whether the caller may see and change what the tenant has.
bool MaySee(const Identity& identity, absl::string_view tenant);

}  // namespace gpupool::server
