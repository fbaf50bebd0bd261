#include "server/ipc/unix_address.h"

#include <fcntl.h>

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {

// Uses /proc/self/fd of the folder when the path is too long for sun_path.
absl::StatusOr<UnixAddress> UnixAddress::For(const std::string& path) {
  UnixAddress result;
  result.address_.sun_family = AF_UNIX;
  std::string reachable = path;
  const size_t slash = path.rfind('/');
  if (path.size() >= sizeof(result.address_.sun_path) &&
      slash != std::string::npos) {
    const std::string folder = path.substr(0, slash + 1);
    result.folder_ =
        UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!result.folder_.valid()) {
      return absl::NotFoundError(absl::StrCat("no folder ", folder));
    }
    reachable = absl::StrCat("/proc/self/fd/", result.folder_.get(), "/",
                             path.substr(slash + 1));
  }
  if (reachable.size() >= sizeof(result.address_.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the socket name ", path, " is too long"));
  }
  std::memcpy(result.address_.sun_path, reachable.c_str(),
              reachable.size() + 1);
  return result;
}

}  // namespace gpupool::server
