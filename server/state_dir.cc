#include "server/state_dir.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
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

// Files and folders that the server makes in the state folder, and that other
// users must not read.
constexpr const char* kPrivate[] = {"admin-token",
                                    "audit",
                                    "blobs",
                                    "gpupool.db",
                                    "gpupool.db-shm",
                                    "gpupool.db-wal",
                                    "gpupool.db-reserve",
                                    "groups",
                                    "lock",
                                    "workers"};

bool IsOpenToOthers(const struct stat& facts) {
  return (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode)) &&
         (facts.st_mode & 0077) != 0;
}

// Takes the rights of other users from a file or folder. Returns whether it had
// to. Passes over what is missing, and over links and special files.
absl::StatusOr<bool> MakePrivate(const std::string& path) {
  struct stat facts = {};
  if (lstat(path.c_str(), &facts) != 0 || !IsOpenToOthers(facts)) return false;
  const int fd =
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return SystemError("cannot open", path);
  absl::Status status;
  bool open_to_others = false;
  if (fstat(fd, &facts) != 0) {
    status = SystemError("cannot look at", path);
  } else if (IsOpenToOthers(facts)) {
    open_to_others = true;
    if (fchmod(fd, facts.st_mode & 07700) != 0) {
      status = SystemError("cannot change the mode of", path);
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return open_to_others;
}

// Makes the server's files in the state folder private, before any of them is
// open: closing a file of a database would release the locks of SQLite.
void MakeFilesPrivate(const std::string& folder) {
  std::string mended;
  for (const char* name : kPrivate) {
    const absl::StatusOr<bool> changed =
        MakePrivate(absl::StrCat(folder, "/", name));
    if (!changed.ok()) {
      spdlog::warn("other users may read a file of the server error=\"{}\"",
                   std::string(changed.status().message()));
    } else if (*changed) {
      absl::StrAppend(&mended, mended.empty() ? "" : ",", name);
    }
  }
  if (mended.empty()) return;
  spdlog::warn(
      "other users could use files of the state folder; the modes are mended "
      "folder={} files={}",
      folder, mended);
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
  MakeFilesPrivate(state->path());
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
