// Private to server: what the daemon does at its start about who may call it.
//
// Thread-safety: one thread, before the control thread runs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/access_gate.h"
#include "server/ipc/unique_fd.h"
#include "tls/tls_files.h"

namespace gpupool::server {

class Store;
class Metrics;
class SharedRegions;
struct Config;
struct ControlContext;

// Name of the file in the state folder that gets the secret of the first admin.
inline constexpr char kAdminTokenFile[] = "admin-token";

// Name of the socket in the state folder.
inline constexpr char kSocketFile[] = "gpupoold.sock";

// A path where only this server makes its socket.
struct ClaimedSocket {
  std::string path;  // empty: no socket
  UniqueFd lock;     // keeps other servers away while it is open
};

// Returns the place for the socket of gRPC by the setting `socket`: a path,
// "auto" for kSocketFile in `state_dir`, whose own lock is enough, or "none".
// Removes the socket of a server that has ended. A path keeps a file PATH.lock,
// since two servers could both find no socket there. Where "auto" fails it
// warns and returns an empty path. Errors:
//   * InvalidArgument: the path is too long
//   * FailedPrecondition: another server listens there or is about to, or the
//     file there is no socket
//   * Unavailable: no socket or no lock can be made there
absl::StatusOr<ClaimedSocket> ClaimSocket(const std::string& socket,
                                          const std::string& state_dir);

// Reads and checks the files of TLS, if it is on, and tells the log of them.
absl::Status CheckTls(const tls::TlsFiles& files, absl::Time now);

// Returns who needs no token by the settings `auth`, "local", "tokens" or
// "none", and `tls-client-ca`.
FreeCallers FreeCallersOf(const Config& config);

// Returns a gate with the tokens of the store, if tokens count. Forgets tokens
// that ended more than 30 days ago. If nobody is free and no admin has a token
// that works, makes one and writes its secret to kAdminTokenFile in
// `state_dir`, which only the server's user can read. Warns if own users are
// free, and the system does not tell users. `store` is written.
absl::StatusOr<std::unique_ptr<AccessGate>> OpenGate(
    FreeCallers free, const std::string& state_dir, Store* store,
    std::function<absl::Time()> now);

// Opens the audit log in `state_dir`, unless it is off, and gives it to the
// gate. DataLoss for one that no record can follow. `metrics` must outlive the
// gate.
absl::Status KeepAuditLog(const Config& config, const std::string& state_dir,
                          Metrics* metrics, AccessGate* gate);

// Returns the regions for the setting `shared_memory`; null for "off". Has the
// gate ask for users, and warns if the system does not tell them. The gate must
// outlive the regions. Call it before the ports open.
std::shared_ptr<SharedRegions> OpenRegions(const std::string& shared_memory,
                                           AccessGate* gate);

// Has the last uses of tokens written from now on. `control` must outlive the
// calls that the gate checks.
void NoteTokenUses(AccessGate* gate, const ControlContext* control);

}  // namespace gpupool::server
