#include "server/worker/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

std::string Holder(int fd) {
  std::array<char, 32> text = {};
  const ssize_t count = ::pread(fd, text.data(), text.size() - 1, 0);
  const std::string pid = count > 0 ? text.data() : "";
  return pid.empty() ? "unknown" : std::string(absl::StripAsciiWhitespace(pid));
}

}  // namespace

absl::StatusOr<Lease> Lease::Take(const std::string& path,
                                  const std::string& device) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot open ", path, " (errno ", errno, ")"));
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", device, " has a worker already, process ",
                     Holder(file.get()),
                     ", in this state folder; stop it first or use "
                     "another --state-dir"));
  }
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), pid.data(), pid.size(), 0) < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", path, " (errno ", errno, ")"));
  }
  return Lease(std::move(file));
}

}  // namespace gpupool::server
