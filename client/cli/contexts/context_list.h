// Contexts: named servers, each with its address and the files that a client
// needs to call it. This is their form as YAML:
//
//   in_use: lab
//   contexts:
//     lab:
//       address: pool.example.org:8001
//       ca: /home/mia/lab/ca.pem
//       client_cert: /home/mia/lab/mia.pem
//       client_key: /home/mia/lab/mia.key
//       token_file: /home/mia/lab/mia.token
//       insecure: true
//
// Only `address` is required. All paths are absolute. No context has a token.
//
// Pure; from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"

namespace gpupool::client {

inline constexpr size_t kMostContexts = 256;
inline constexpr size_t kLongestContextName = 64;     // bytes
inline constexpr size_t kLongestContextValue = 4096;  // bytes

struct ServerContext {
  std::string address;     // host:port or unix:PATH
  TlsOptions tls = {};     // absolute paths; empty: none
  std::string token_file;  // absolute path; empty: none
  bool insecure = false;   // as TokenOptions::insecure

  bool operator==(const ServerContext& other) const;
};

struct ContextList {
  std::string in_use;  // empty: none; may name a context that is not there
  std::map<std::string, ServerContext> contexts;
};

// Returns InvalidArgument unless the name has 1 to kLongestContextName letters,
// digits, dots, dashes and underscores, and begins with a letter or digit.
absl::Status CheckContextName(absl::string_view name);

// Returns InvalidArgument for a context that cannot work: without an address,
// with a relative path, with a value that is too long or has control
// characters, or with only one of certificate and key. The text names the
// field.
absl::Status CheckContext(const ServerContext& context);

// Reads a YAML document; an empty one is an empty list. InvalidArgument names
// `source`, the line and the column.
absl::StatusOr<ContextList> ParseContexts(const std::string& text,
                                          absl::string_view source);

// Returns the document that ParseContexts reads.
std::string ContextsText(const ContextList& list);

// Returns the context of this name. NotFound names `source`, the nearest name
// and the known names.
absl::StatusOr<ServerContext> FindContext(const ContextList& list,
                                          absl::string_view name,
                                          absl::string_view source);

}  // namespace gpupool::client
