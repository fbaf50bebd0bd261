// The file in which a user's contexts are kept. Its folder has mode 0700 and
// the file mode 0600. A change replaces the file as a whole.
//
// Thread-safety: any thread, and several processes at once.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/contexts/context_list.h"

namespace gpupool::client {

inline constexpr size_t kMostContextFileBytes = 1 << 20;

// Returns gpupool/contexts.yaml in $XDG_CONFIG_HOME, or in ~/.config if that is
// no absolute path. FailedPrecondition if HOME is no absolute path either.
absl::StatusOr<std::string> ContextFilePath();

// Returns the contexts of the file; none if it does not exist.
//   INVALID_ARGUMENT    it is no file, too large, or wrong at a line
//   PERMISSION_DENIED   it cannot be opened, or others could have written it,
//                       since it says where tokens are sent
absl::StatusOr<ContextList> ReadContextFile(const std::string& path);

// Reads the file, lets `change` change the list, and writes it, while no other
// process does the same. Makes the folder if it does not exist. Leaves the file
// as it is if `change` fails, and returns its status. InvalidArgument for a
// list that could not be read again. ResourceExhausted if the
// list would take more than kMostContextFileBytes, or the disk is full.
absl::Status UpdateContextFile(
    const std::string& path,
    const std::function<absl::Status(ContextList&)>& change);

}  // namespace gpupool::client
