// The address of a Unix socket at a path of any length: sun_path holds 107
// bytes, so a longer path is reached through its folder's descriptor. A value
// that owns that descriptor; keep it until bind or connect has returned.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "absl/status/statusor.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

class UnixAddress {
 public:
  // Returns the address. NotFound when the folder of a long path does not
  // exist; InvalidArgument when the file name alone is too long.
  static absl::StatusOr<UnixAddress> For(const std::string& path);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }
  socklen_t length() const { return sizeof(address_); }

 private:
  UnixAddress() = default;

  sockaddr_un address_ = {};
  UniqueFd folder_;
};

}  // namespace gpupool::server
