// The files that one end of a TLS connection needs, and their checks:
//
//   * a file is regular and has at most 1 MiB
//   * nobody but its owner may read a key
//   * a key belongs to its certificate
//   * a certificate is valid now
//
// Errors name the file and the remedy. NotFound and PermissionDenied come from
// the system.
//
// Thread-safety: any thread; functions keep nothing.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tls/pem_pair.h"

namespace gpupool::tls {

// The files of a server.
struct TlsFiles {
  std::string certificate;  // with its chain; empty: no TLS
  std::string key;
  std::string client_ca;  // authorities of clients; empty: any client may call

  bool on() const { return !certificate.empty(); }
};

// The contents of a server's files.
struct ServerPem {
  PemPair own;
  std::string client_authorities;  // empty: any client may call
};

// Returns InvalidArgument when a setting lacks another one.
absl::Status CheckComplete(const TlsFiles& files);

// Reads and checks all files of a server for which TLS is on.
absl::StatusOr<ServerPem> ReadServerFiles(const TlsFiles& files,
                                          absl::Time now);

// Reads and checks a certificate and its key.
absl::StatusOr<PemPair> ReadPair(const std::string& certificate_file,
                                 const std::string& key_file, absl::Time now);

// Reads a file with certificates of authorities, of which one at least must be
// valid now.
absl::StatusOr<std::string> ReadAuthorities(const std::string& file,
                                            absl::Time now);

}  // namespace gpupool::tls
