#include "server/state_dir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

absl::Status SystemError(absl::string_view what, absl::string_view path) {
  return absl::UnavailableError(
      absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::UnavailableError(std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Returns "process 12" from the holder's own note.
std::string Holder(int fd) {
  char text[32] = {};
  const ssize_t count = pread(fd, text, sizeof(text) - 1, 0);
  return count > 0 ? absl::StrCat("process ", text) : "another process";
}

// Makes the folder for this user only. Returns its path without links, so that
// two paths to one folder meet at the same lock.
absl::StatusOr<std::string> MakeFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent =
      std::filesystem::absolute(path).parent_path();
  std::filesystem::create_directories(parent, error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("cannot create the state folder", path);
  }
  const std::string real = std::filesystem::canonical(path, error).string();
  if (error) return SystemError("cannot open the state folder", path);
  return real;
}

}  // namespace

StateDir::StateDir(std::string path, int lock_fd)
    : path_(std::move(path)), lock_fd_(lock_fd) {}

StateDir::~StateDir() { close(lock_fd_); }

absl::StatusOr<std::unique_ptr<StateDir>> StateDir::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::string real, MakeFolder(path));
  const std::string lock = absl::StrCat(real, "/lock");
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError("cannot open", lock);
  auto state = absl::WrapUnique(new StateDir(std::move(real), fd));
  // The kernel releases the lock at any end of the process. The pid in the file
  // is for messages only.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the state folder ", state->path(), " is held by ", Holder(fd),
        "; stop that gpupoold or give this one another --state-dir"));
  }
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(fd, 0) != 0) return SystemError("cannot write", lock);
  RETURN_IF_ERROR(WriteAll(fd, pid));
  return state;
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view bytes, mode_t mode) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return SystemError("cannot write", path);
  absl::Status status = WriteAll(fd, bytes);
  if (!status.ok()) {
    status = absl::Status(status.code(),
                          absl::StrCat("cannot write ", path, ": ",
                                       std::string(status.message())));
  }
  if (status.ok() && (fchmod(fd, mode) != 0 || fsync(fd) != 0)) {
    status = SystemError("cannot write", path);
  }
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = SystemError("cannot write", path);
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace gpupool::server
