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
#include "tls/tls_files.h"

namespace gpupool::server {

class Store;
class Metrics;
struct Config;
struct ControlContext;

// Name of the file in the state folder that gets the secret of the first admin.
inline constexpr char kAdminTokenFile[] = "admin-token";

// Name of the socket in the state folder.
inline constexpr char kSocketFile[] = "gpupoold.sock";

// Returns the path for the socket of gRPC by the setting `socket`: a path,
// "auto" for kSocketFile in `state_dir`, or "none", for which it is empty.
// Removes the socket of a server that has ended. Where "auto" fails it warns
// and returns an empty path. Errors:
//   * InvalidArgument: the path is too long
//   * FailedPrecondition: another server listens there, or the file there is no
//     socket
//   * Unavailable: no socket can be made there
absl::StatusOr<std::string> ClaimSocket(const std::string& socket,
                                        const std::string& state_dir);

// Reads and checks the files of TLS, if it is on, and tells the log of them.
absl::Status CheckTls(const tls::TlsFiles& files, absl::Time now);

// Returns the gate for the setting `auth`, "none" or "tokens", with the tokens
// of the store. Forgets tokens that ended more than 30 days ago. If the server
// wants tokens and no admin has one that works, makes one and writes its secret
// to kAdminTokenFile in `state_dir`, which only the server's user can read.
// `store` is written.
absl::StatusOr<std::unique_ptr<AccessGate>> OpenGate(
    const std::string& auth, const std::string& state_dir, Store* store,
    std::function<absl::Time()> now);

// Opens the audit log in `state_dir`, unless it is off, and gives it to the
// gate. DataLoss for one that no record can follow. `metrics` must outlive the
// gate.
absl::Status KeepAuditLog(const Config& config, const std::string& state_dir,
                          Metrics* metrics, AccessGate* gate);

// Has the last uses of tokens written from now on. `control` must outlive the
// calls that the gate checks.
void NoteTokenUses(AccessGate* gate, const ControlContext* control);

}  // namespace gpupool::server
