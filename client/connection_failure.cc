#include "client/connection_failure.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

// gRPC's text when a connection was never ready, unlike one that was lost.
constexpr char kNeverReady[] = "failed to connect to all addresses";

bool HasAny(absl::string_view message,
            const std::vector<absl::string_view>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](absl::string_view part) {
    return absl::StrContains(message, part);
  });
}

// "failed to connect to all addresses; last error: UNKNOWN: ipv4:...: Failed
// to connect to remote host: Connection refused" -> "Connection refused".
absl::string_view LastPart(absl::string_view message) {
  const size_t last = message.rfind(": ");
  const absl::string_view part =
      last == absl::string_view::npos ? message : message.substr(last + 2);
  return part.empty() ? "the connection was lost" : part;
}

// Returns the text for a server that accepts the connection and then ends it,
// which is all that a client sees when it lacks something.
std::string Ended(const TlsOptions& options) {
  if (options.ca.empty()) {
    return "it ended the connection; if it wants TLS, give the certificate of "
           "its authority with --ca or GPUPOOL_CA";
  }
  if (options.certificate.empty()) {
    return "it ended the connection; if it wants certificates of clients, give "
           "one with --client-cert and --client-key, or GPUPOOL_CLIENT_CERT "
           "and GPUPOOL_CLIENT_KEY";
  }
  return absl::StrCat(
      "it ended the connection; perhaps it does not know the authority that "
      "signed ",
      options.certificate, ", or that is no certificate of a client");
}

}  // namespace

std::string ConnectionFailure(const TlsOptions& options,
                              absl::string_view message) {
  if (HasAny(message, {"wrong version number", "WRONG_VERSION_NUMBER"})) {
    return "it speaks no TLS; leave out --ca and unset GPUPOOL_CA, or start it "
           "with --tls-certificate";
  }
  if (HasAny(message,
             {"certificate verify failed", "CERTIFICATE_VERIFY_FAILED"})) {
    return absl::StrCat(
        "its certificate was signed by no authority in ", options.ca,
        ", or is expired; ask who runs it for the right file for --ca");
  }
  if (HasAny(message, {"is not in peer certificate"})) {
    return "its certificate is not for this host; use a name or an address "
           "that it has, or make one with `gpupool tls init DIR --host NAME`";
  }
  if (HasAny(message, {"unix:"}) && HasAny(message, {"Permission denied"})) {
    return "only the server's user and root may use this socket; name the "
           "server's port with --address or GPUPOOL_ADDRESS, as host:port";
  }
  if (absl::StartsWith(message, kNeverReady) &&
      HasAny(message, {"Socket closed", "Connection reset", "Broken pipe",
                       "Endpoint closing"})) {
    return Ended(options);
  }
  return absl::StrCat(
      LastPart(message),
      "; start one with `gpupoold`, or name another with --address or "
      "GPUPOOL_ADDRESS");
}

}  // namespace gpupool::client
