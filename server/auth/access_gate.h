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
#include "server/auth/token_book.h"

namespace gpupool::server {

// The way by which a call comes in.
enum class Door {
  kPort,    // gRPC or HTTP over TCP
  kSocket,  // the Unix socket, which only the server's user and root can open
};

class AccessGate {
 public:
  // Without `wants_tokens` everybody is an admin without a tenant. `now` is the
  // clock.
  AccessGate(bool wants_tokens, std::function<absl::Time()> now);

  bool wants_tokens() const { return wants_tokens_; }
  TokenBook& tokens() { return tokens_; }
  absl::Time now() const { return now_(); }

  // Has calls noted from now on. Call it before the ports open.
  void KeepRecords(std::unique_ptr<audit::AuditLog> log) {
    log_ = std::move(log);
  }
  // Returns null if nothing is noted.
  audit::AuditLog* log() const { return log_.get(); }

  // Checks a call of "/package.Service/Method" by the value of its header
  // `authorization`, which is empty if there is none. Methods that are open to
  // everybody get an identity without role and tenant. A call over the socket
  // without the header is that of an admin. `peer` is the address of the caller
  // for the audit log; empty if it is not known. Errors:
  //   * Unauthenticated: no token, or one that is unknown, revoked or expired
  //   * PermissionDenied: the token's role may not call the method, or nobody
  //     may
  absl::StatusOr<Identity> Admit(absl::string_view method,
                                 absl::string_view authorization,
                                 Door door = Door::kPort,
                                 absl::string_view peer = {});

  // Returns who calls, without a look at the method.
  absl::StatusOr<Identity> Identify(absl::string_view authorization,
                                    Door door = Door::kPort);

 private:
  absl::StatusOr<Identity> Decide(absl::string_view method,
                                  absl::string_view authorization, Door door);

  const bool wants_tokens_;
  const std::function<absl::Time()> now_;
  TokenBook tokens_;
  std::unique_ptr<audit::AuditLog> log_;
};

// Fills in the tenant of a bound caller where a request names none. Does the
// same for a caller that is not bound but has a tenant. PermissionDenied if a
// bound caller names another tenant.
absl::Status AdoptTenant(const Identity& identity, std::string* tenant);

// Returns whether the caller may see and change what the tenant has.
bool MaySee(const Identity& identity, absl::string_view tenant);

}  // namespace gpupool::server
