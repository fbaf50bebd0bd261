#include "client/cli/contexts/context_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/files/partial_file.h"

namespace gpupool::client {
namespace {

// Returns the folder that a variable names, and "" for a relative one, which
// the XDG Base Directory Specification says to ignore.
std::string AbsoluteFolder(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

// Checks that only this user and root can have written the open file.
absl::Status CheckContextFile(int fd, const std::string& path) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, " belongs to another user (", status.st_uid,
        "), who could send your tokens elsewhere; move it away, or set "
        "XDG_CONFIG_HOME to a folder of yours"));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path,
        " can be written by other users, who could send your tokens "
        "elsewhere; take that away with chmod 600"));
  }
  if (static_cast<size_t>(status.st_size) > kMostContextFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", status.st_size, " bytes, over ", kMostContextFileBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ContextBytes(int fd, const std::string& path) {
  std::string text;
  char buffer[1 << 14];
  while (true) {
    const ssize_t count = ::read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    }
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kMostContextFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has over ", kMostContextFileBytes, " bytes"));
    }
  }
}

absl::Status MakeContextFolder(const std::string& folder) {
  // Parents get what the umask leaves, the folder itself 0700.
  std::error_code error;
  std::filesystem::create_directories(
      std::filesystem::path(folder).parent_path(), error);
  if (!error && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    error.assign(errno, std::generic_category());
  }
  if (!error) {
    struct stat status = {};
    if (::stat(folder.c_str(), &status) != 0 ||
        ((status.st_mode & 0077) != 0 && ::chmod(folder.c_str(), 0700) != 0)) {
      error.assign(errno, std::generic_category());
    }
  }
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(
      error.value(),
      absl::StrCat("cannot make the folder ", folder, " for you alone"));
}

absl::Status WriteContextFile(const std::string& path,
                              const std::string& text) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  if (::chmod(file->partial_path().c_str(), 0600) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot write ", file->partial_path()));
  }
  file->Append(text);
  absl::Status status = file->Close();
  if (status.ok()) status = file->Replace();
  return status;
}

}  // namespace

absl::StatusOr<std::string> ContextFilePath() {
  std::string folder = AbsoluteFolder("XDG_CONFIG_HOME");
  if (folder.empty()) {
    folder = AbsoluteFolder("HOME");
    if (folder.empty()) {
      return absl::FailedPreconditionError(
          "contexts have no folder: neither XDG_CONFIG_HOME nor HOME is an "
          "absolute path; set one of them");
    }
    folder += "/.config";
  }
  return folder + "/gpupool/contexts.yaml";
}

absl::StatusOr<ContextList> ReadContextFile(const std::string& path) {
  // Does not wait for a writer if the path is a pipe.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int reason = errno;
    if (reason == ENOENT || reason == ENOTDIR) return ContextList();
    return absl::ErrnoToStatus(
        reason, absl::StrCat("cannot read ", path,
                             reason == EACCES
                                 ? ", the file of contexts; give --address "
                                   "or set XDG_CONFIG_HOME to a folder "
                                   "that you can read"
                                 : ""));
  }
  const absl::Cleanup close = [fd] { ::close(fd); };
  const absl::Status usable = CheckContextFile(fd, path);
  if (!usable.ok()) return usable;
  const absl::StatusOr<std::string> text = ContextBytes(fd, path);
  if (!text.ok()) return text.status();
  return ParseContexts(*text, path);
}

absl::Status UpdateContextFile(
    const std::string& path,
    const std::function<absl::Status(ContextList&)>& change) {
  const absl::Status made =
      MakeContextFolder(std::filesystem::path(path).parent_path());
  if (!made.ok()) return made;
  // The file itself is replaced, so another one is locked.
  const std::string lock = path + ".lock";
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", lock));
  }
  const absl::Cleanup close = [fd] { ::close(fd); };
  if (::flock(fd, LOCK_EX) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", lock));
  }
  absl::StatusOr<ContextList> list = ReadContextFile(path);
  if (!list.ok()) return list.status();
  const absl::Status changed = change(*list);
  if (!changed.ok()) return changed;
  const std::string text = ContextsText(*list);
  if (text.size() > kMostContextFileBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, " would have ", text.size(), " bytes, over ",
        kMostContextFileBytes, "; remove contexts that you do not need"));
  }
  // A path may have bytes that are not UTF-8, which YAML cannot keep.
  const absl::StatusOr<ContextList> kept = ParseContexts(text, path);
  if (!kept.ok()) return kept.status();
  if (kept->contexts != list->contexts) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " cannot keep a path that is not UTF-8; rename the file"));
  }
  return WriteContextFile(path, text);
}

}  // namespace gpupool::client
