// Chooses the server that a command calls, and the files for that. The sources,
// from the one that counts first:
//   1. the flags of the command
//   2. --context NAME
//   3. the environment: GPUPOOL_ADDRESS, GPUPOOL_CA and the others
//   4. the context that GPUPOOL_CONTEXT names, else the context in use
//   5. the socket of a server of this folder, or DefaultServerAddress()
// Two rules keep files and tokens of one server from another one:
//   - With --context the environment does not count at all.
//   - Without it, an address in a flag or in GPUPOOL_ADDRESS means that no
//     context counts at all.
//
// Thread-safety: any thread that nobody changes the environment beside.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/contexts/context_list.h"
#include "client/client.h"

namespace gpupool::client {

// Holds the options of the command line. An empty text counts as given.
struct ServerFlags {
  std::optional<std::string> address, ca, certificate, key, token_file;
  std::optional<std::string> context;
  bool insecure = false;
};

struct ServerChoice {
  std::string address;
  TlsOptions tls = {};
  TokenOptions token = {};
  std::string context;  // the context that was used; empty: none
};

// Returns whether a variable is set and not empty.
bool IsSet(const char* variable);

// Returns the name of the context that --context, GPUPOOL_CONTEXT or the list
// chooses, in this order, and "" if there is none.
std::string ContextToUse(const ServerFlags& flags, const ContextList& list);

// Returns what the sources say. Reads the file of contexts only if a context
// may count. NotFound for an unknown context, else errors as from
// ContextFilePath and ReadContextFile. A user without a folder has no contexts.
absl::StatusOr<ServerChoice> ChooseServer(const ServerFlags& flags);

}  // namespace gpupool::client
