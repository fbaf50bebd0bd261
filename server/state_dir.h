// The state folder, held by one daemon at a time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Holds the folder's lock until it is destroyed or the process ends, however
// it ends.
class StateDir {
 public:
  // Creates the folder (for this user only) when it is not there.
  // FailedPrecondition names the process that holds it.
  static absl::StatusOr<std::unique_ptr<StateDir>> Open(
      const std::string& path);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  // Absolute, without links.
  const std::string& path() const { return path_; }

 private:
  StateDir(std::string path, int lock_fd);

  const std::string path_;
  const int lock_fd_;
};

// Replaces `path` by a file with these bytes; a reader sees the old file or
// the whole new one.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view bytes);

}  // namespace gpupool::server
