// The right to be the one worker of a device: a lock on a file, which the
// system releases when the process ends in any way.
//
// Owns the lock; destroying the object releases it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

class Lease {
 public:
  // Takes the lease. FailedPrecondition, with the holder's process id, while
  // another process holds it; Unavailable when the file cannot be opened.
  static absl::StatusOr<Lease> Take(const std::string& path,
                                    const std::string& device);

 private:
  explicit Lease(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace gpupool::server
