// The right to be the one worker of a device: a lock on a file, which the
// system gives back when the process ends, however it ends.
//
// Owns the lock; dropping the object gives it back.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

class Lease {
 public:
  // FailedPrecondition, naming the holder's process id, while another process
  // holds the lease; Unavailable when the file cannot be opened.
  static absl::StatusOr<Lease> Take(const std::string& path,
                                    const std::string& device);

 private:
  explicit Lease(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace gpupool::server
