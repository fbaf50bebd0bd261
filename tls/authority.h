// A small certificate authority: certificates (RFC 5280) for the servers and
// the clients of one pool, with keys on the curve P-256.
//
// Thread-safety: any thread; functions keep nothing.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tls/pem_pair.h"

namespace gpupool::tls {

struct Validity {
  absl::Time from;
  absl::Time until;
};

// Makes an authority, which may sign certificates of servers and clients but no
// further authorities. Internal when OpenSSL fails.
absl::StatusOr<PemPair> MakeAuthority(absl::string_view name,
                                      const Validity& validity);

// Makes a certificate for a server that is reached under `hosts`: names and IP
// addresses, for which CheckHost must hold. It is not valid for longer than its
// authority. InvalidArgument for an empty list and more than 100 hosts.
absl::StatusOr<PemPair> MakeServerPair(const PemPair& authority,
                                       const std::vector<std::string>& hosts,
                                       const Validity& validity);

// Makes a certificate for a client, for whose name CheckClientName must hold.
// It is not valid for longer than its authority.
absl::StatusOr<PemPair> MakeClientPair(const PemPair& authority,
                                       const std::string& name,
                                       const Validity& validity);

// Returns InvalidArgument for a host that is neither an IP address nor a name
// of letters, digits, '-' and '.'.
absl::Status CheckHost(absl::string_view host);

// Returns InvalidArgument unless the name has 1 to 64 letters, digits, '-', '_'
// and '.', and begins with a letter or a digit.
absl::Status CheckClientName(absl::string_view name);

}  // namespace gpupool::tls
