// The folder of an authority: the files of `gpupool tls`.
//
//   ca.pem      certificate of the authority, for clients and --tls-client-ca
//   ca.key      its key, which signs further certificates
//   server.pem  server.key
//   NAME.pem    NAME.key    of each client
//
// The folder has mode 0700 and keys have mode 0600. No file is ever
// overwritten.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gpupool::tls {

inline constexpr int kMostDays = 3650;  // of validity

struct NewCertificate {
  absl::Time now;
  int days = 365;  // of validity, 1 .. kMostDays
};

// Makes the folder with an authority, valid for kMostDays, and a server that is
// reached under `hosts`. AlreadyExists for a folder that exists;
// InvalidArgument for wrong hosts or days. Makes nothing in those cases.
absl::Status MakeAuthorityFolder(const std::string& folder,
                                 const std::vector<std::string>& hosts,
                                 const NewCertificate& options);

// Adds a client. AlreadyExists for a name that has a file; NotFound for a
// folder without an authority.
absl::Status AddClientTo(const std::string& folder, const std::string& name,
                         const NewCertificate& options);

}  // namespace gpupool::tls
