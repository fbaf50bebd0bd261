// The files of an audit log: audit-00000001.jsonl and so on in one folder, the
// newest with the highest number.
//
// Thread-safety: any thread; functions keep nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::audit {

// Name of the folder in the state folder.
inline constexpr char kFolderName[] = "audit";

struct AuditFile {
  uint64_t number = 0;
  std::string path;
};

// Returns the path of a file in `folder`.
std::string PathOf(absl::string_view folder, uint64_t number);

// Returns the files in `folder` by rising number. Other names are passed over.
// NotFound if there is no such folder.
absl::StatusOr<std::vector<AuditFile>> FilesIn(const std::string& folder);

// Opens one of the files with these flags of open(2), beside O_NOFOLLOW,
// O_NONBLOCK and O_CLOEXEC. Returns the descriptor, which the caller closes.
// Unavailable, with the reason, if the system refuses it, or if it is no
// regular file: a link, a folder or a pipe with its name is neither followed
// nor read.
absl::StatusOr<int> OpenFile(const std::string& path, int flags);

// Returns the folder with the files: `folder` itself, or the one in it that is
// called "audit", so that a state folder may be named.
std::string FolderOfLog(const std::string& folder);

}  // namespace gpupool::audit
