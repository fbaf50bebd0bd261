// A folder whose files are opened without ever leaving it: links that lead out,
// ".." and absolute paths are refused by the kernel, for the path as a whole.
// Links to other places inside the folder are followed.
//
// A file with several names (hard links) is opened only if all who may write to
// the folder where it lies may read it anyway. Otherwise a user who may write
// there could link a file that only the server may read. So one of these must
// hold:
//   * All users may read the file.
//   * It has the folder's owner, and nobody else may write to the folder.
//   * It has the folder's owner and group, the group may read the file, and
//     only the two may write to the folder.
//
// Thread-safety: any thread. Ownership: owns the descriptor of the folder.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

// Kind of what a path names, after links.
enum class EntryKind { kFile, kFolder, kOther };

// State of a file by which a change is noticed.
struct FileStamp {
  std::string name;
  uint64_t bytes = 0;
  int64_t modified_nanos = 0;
  uint64_t inode = 0;
  bool operator==(const FileStamp&) const = default;
};

struct Entry {
  EntryKind kind = EntryKind::kOther;
  FileStamp stamp;
};

// Maximum number of names that are read from one folder.
inline constexpr size_t kMaxEntries = 65536;

class ConfinedFolder {
 public:
  // Opens the folder itself; its path may have links. NotFound or
  // InvalidArgument names the path and the reason.
  static absl::StatusOr<ConfinedFolder> Open(const std::string& path);

  // Returns the names in a folder below, sorted, without "." and "..". "."
  // stands for this folder. ResourceExhausted for more than kMaxEntries.
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& relative) const;
  // Returns the kind and the stamp of a path. Opens nothing, so that pipes and
  // devices are safe to ask about. PermissionDenied when the path leads out.
  absl::StatusOr<Entry> Look(const std::string& relative) const;
  // Opens a regular file for reading. FailedPrecondition for anything else,
  // PermissionDenied for hard links that the rule above refuses.
  absl::StatusOr<UniqueFd> OpenFile(const std::string& relative) const;
  // Returns the content of a regular file of at most `limit_bytes`.
  absl::StatusOr<std::string> Read(const std::string& relative,
                                   uint64_t limit_bytes) const;

 private:
  explicit ConfinedFolder(UniqueFd folder) : folder_(std::move(folder)) {}
  absl::StatusOr<UniqueFd> OpenBeneath(const std::string& relative,
                                       uint64_t flags) const;
  // Returns the facts of the folder below this one where an open file lies,
  // after all links.
  absl::StatusOr<struct stat> FolderOf(const UniqueFd& file,
                                       const struct stat& facts) const;
  // PermissionDenied for a file with several names that is not for everybody
  // who may have linked it.
  absl::Status CheckNames(const UniqueFd& file, const struct stat& facts) const;

  UniqueFd folder_;
};

// Returns the stamp of an open file.
absl::StatusOr<FileStamp> StampOf(const UniqueFd& file, std::string name);

}  // namespace gpupool::server
