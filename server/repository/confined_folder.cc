#include "server/repository/confined_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using OpenDirectory = std::unique_ptr<DIR, int (*)(DIR*)>;

FileStamp MakeStamp(const struct stat& facts, std::string name) {
  constexpr int64_t kNanos = 1'000'000'000;
  return {
      .name = std::move(name),
      .bytes = static_cast<uint64_t>(facts.st_size),
      .modified_nanos = facts.st_mtim.tv_sec * kNanos + facts.st_mtim.tv_nsec,
      .inode = facts.st_ino};
}

EntryKind KindOf(const struct stat& facts) {
  if (S_ISREG(facts.st_mode)) return EntryKind::kFile;
  return S_ISDIR(facts.st_mode) ? EntryKind::kFolder : EntryKind::kOther;
}

absl::StatusOr<struct stat> FactsOf(const UniqueFd& file) {
  struct stat facts = {};
  if (fstat(file.get(), &facts) == 0) return facts;
  return absl::ErrnoToStatus(errno, "cannot be looked at");
}

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns whether all who may write to the folder may read the file.
bool IsReadableByWriters(const struct stat& file, const struct stat& folder) {
  if ((file.st_mode & S_IROTH) != 0) return true;
  if (file.st_uid != folder.st_uid) return false;
  if ((folder.st_mode & S_IWOTH) != 0) return false;
  if ((folder.st_mode & S_IWGRP) == 0) return true;
  return file.st_gid == folder.st_gid && (file.st_mode & S_IRGRP) != 0;
}

// Returns the path by which the kernel knows an open file.
absl::StatusOr<std::string> PathOf(const UniqueFd& file) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(
      absl::StrCat("/proc/self/fd/", file.get()), error);
  if (!error) return path.string();
  return absl::ErrnoToStatus(error.value(), "its folder cannot be found");
}

absl::Status OpenError(int error) {
  if (error == EXDEV || error == ELOOP) {
    return absl::PermissionDeniedError(
        "is a link that leads out of the model repository; put the file "
        "itself there");
  }
  if (error == ENOSYS) {
    return absl::UnimplementedError(
        "cannot be opened, because this kernel has no openat2; use Linux 5.6 "
        "or later");
  }
  return absl::ErrnoToStatus(error, "cannot be opened");
}

absl::StatusOr<std::vector<std::string>> EntriesOf(DIR* directory) {
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == kMaxEntries) {
      return absl::ResourceExhaustedError(
          absl::StrCat("has more than ", kMaxEntries, " entries"));
    }
    names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return absl::ErrnoToStatus(errno, "cannot be listed");
  std::sort(names.begin(), names.end());
  return names;
}

// Reads until the end of the file or one byte more than the limit, as the file
// may grow meanwhile.
absl::StatusOr<std::string> ReadUpTo(const UniqueFd& file,
                                     uint64_t limit_bytes) {
  std::string content;
  char piece[16384];
  while (content.size() <= limit_bytes) {
    const ssize_t count = read(file.get(), piece, sizeof(piece));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, "cannot be read");
    if (count == 0) return content;
    content.append(piece, static_cast<size_t>(count));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("has more than ", limit_bytes, " bytes, the limit"));
}

}  // namespace

absl::StatusOr<ConfinedFolder> ConfinedFolder::Open(const std::string& path) {
  UniqueFd folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) return ConfinedFolder(std::move(folder));
  return absl::ErrnoToStatus(
      errno, absl::StrCat("the model repository ", path, " cannot be opened"));
}

absl::StatusOr<UniqueFd> ConfinedFolder::OpenBeneath(
    const std::string& relative, uint64_t flags) const {
  open_how how = {};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  long opened = -1;
  // EAGAIN tells of a rename on the way.
  do {
    opened = syscall(SYS_openat2, folder_.get(), relative.c_str(), &how,
                     sizeof(how));
  } while (opened < 0 && (errno == EINTR || errno == EAGAIN));
  if (opened < 0) return OpenError(errno);
  return UniqueFd(static_cast<int>(opened));
}

absl::StatusOr<std::vector<std::string>> ConfinedFolder::List(
    const std::string& relative) const {
  ASSIGN_OR_RETURN(UniqueFd folder,
                   OpenBeneath(relative, O_RDONLY | O_DIRECTORY));
  OpenDirectory directory(fdopendir(folder.get()), closedir);
  if (directory == nullptr) {
    return absl::ErrnoToStatus(errno, "cannot be listed");
  }
  folder.Release();  // the stream owns it
  return EntriesOf(directory.get());
}

absl::StatusOr<Entry> ConfinedFolder::Look(const std::string& relative) const {
  ASSIGN_OR_RETURN(const UniqueFd place, OpenBeneath(relative, O_PATH));
  ASSIGN_OR_RETURN(const struct stat facts, FactsOf(place));
  return Entry{KindOf(facts), MakeStamp(facts, BaseName(relative))};
}

absl::StatusOr<UniqueFd> ConfinedFolder::OpenFile(
    const std::string& relative) const {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  ASSIGN_OR_RETURN(UniqueFd file, OpenBeneath(relative, O_RDONLY | O_NONBLOCK));
  ASSIGN_OR_RETURN(const struct stat facts, FactsOf(file));
  if (KindOf(facts) != EntryKind::kFile) {
    return absl::FailedPreconditionError("is no regular file");
  }
  RETURN_IF_ERROR(CheckNames(file, facts));
  return file;
}

absl::StatusOr<struct stat> ConfinedFolder::FolderOf(
    const UniqueFd& file, const struct stat& facts) const {
  ASSIGN_OR_RETURN(const std::string top, PathOf(folder_));
  ASSIGN_OR_RETURN(const std::string path, PathOf(file));
  const std::string prefix = top == "/" ? top : top + "/";
  if (!absl::StartsWith(path, prefix)) {
    return absl::UnavailableError("was moved while it was opened; try again");
  }
  // Looked up beneath this folder, and compared, since a folder on the way may
  // be exchanged meanwhile.
  const std::string relative = path.substr(prefix.size());
  const size_t slash = relative.rfind('/');
  const std::string parent =
      slash == std::string::npos ? "." : relative.substr(0, slash);
  ASSIGN_OR_RETURN(const UniqueFd folder,
                   OpenBeneath(parent, O_PATH | O_DIRECTORY));
  struct stat entry = {};
  if (fstatat(folder.get(), BaseName(relative).c_str(), &entry,
              AT_SYMLINK_NOFOLLOW) != 0 ||
      entry.st_ino != facts.st_ino || entry.st_dev != facts.st_dev) {
    return absl::UnavailableError("was moved while it was opened; try again");
  }
  return FactsOf(folder);
}

absl::Status ConfinedFolder::CheckNames(const UniqueFd& file,
                                        const struct stat& facts) const {
  if (facts.st_nlink <= 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const struct stat folder, FolderOf(file, facts));
  if (IsReadableByWriters(facts, folder)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "has ", facts.st_nlink, " names (hard links) and belongs to user ",
      facts.st_uid,
      ", but others who may not read it may write to its folder, "
      "which belongs to user ",
      folder.st_uid, "; put a copy there, or let all users read the file"));
}

absl::StatusOr<std::string> ConfinedFolder::Read(const std::string& relative,
                                                 uint64_t limit_bytes) const {
  ASSIGN_OR_RETURN(const UniqueFd file, OpenFile(relative));
  return ReadUpTo(file, limit_bytes);
}

absl::StatusOr<FileStamp> StampOf(const UniqueFd& file, std::string name) {
  ASSIGN_OR_RETURN(const struct stat facts, FactsOf(file));
  return MakeStamp(facts, std::move(name));
}

}  // namespace gpupool::server
