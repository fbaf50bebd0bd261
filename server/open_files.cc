#include "server/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace gpupool::server {
namespace {

// Kernels take no more without a change of fs.nr_open. Some containers have a
// hard limit of a thousand times as much, for which programs that walk over all
// descriptors take minutes.
constexpr rlim_t kMostOpenFiles = 1 << 20;

}  // namespace

absl::StatusOr<OpenFileLimit> RaiseOpenFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read the limit of open files");
  }
  const rlim_t before = limit.rlim_cur;
  const rlim_t wanted = std::min(limit.rlim_max, kMostOpenFiles);
  if (before >= wanted) return OpenFileLimit{before, before};
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::ErrnoToStatus(errno, "cannot raise the limit of open files");
  }
  return OpenFileLimit{before, wanted};
}

}  // namespace gpupool::server
