// The state folder, held by one daemon at a time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Holds the folder's lock until it is destroyed or the process ends in any way.
class StateDir {
 public:
  // Opens the folder and creates it, for this user only, if necessary. Takes
  // the rights of other users from the server's own files and folders in it,
  // with a line in the log if they had some. Links are not followed.
  // FailedPrecondition names the process that holds it.
  static absl::StatusOr<std::unique_ptr<StateDir>> Open(
      const std::string& path);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  // Returns the absolute path without links.
  const std::string& path() const { return path_; }

 private:
  StateDir(std::string path, int lock_fd);

  const std::string path_;
  const int lock_fd_;
};

// Replaces `path` by a file with these bytes and this mode. A reader sees
// either the old or the whole new file.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view bytes, mode_t mode = 0644);

}  // namespace gpupool::server
