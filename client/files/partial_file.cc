#include "client/files/partial_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

// Syncs the folder, since a new name is on stable storage only after that.
void SyncFolderOf(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(),
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // some file systems cannot sync a folder
  ::close(fd);
}

// Returns the path of the file itself, which a link may lead to. Refuses what
// a rename would replace though it is no file, such as /dev/null.
absl::StatusOr<std::string> PathToWrite(const std::string& path) {
  if (path == "-") {
    return absl::InvalidArgumentError(
        "cannot write to standard output: name a file (./- for one that is "
        "called so)");
  }
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) &&
      !std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": it is not a file"));
  }
  if (!std::filesystem::is_symlink(
          std::filesystem::symlink_status(path, error))) {
    return path;
  }
  const auto target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

}  // namespace

absl::StatusOr<PartialFile> PartialFile::Create(const std::string& name) {
  const absl::StatusOr<std::string> path = PathToWrite(name);
  if (!path.ok()) return path.status();
  std::string partial = absl::StrCat(*path, ".part");
  Handle handle(std::fopen(partial.c_str(), "wb"), &std::fclose);
  if (handle == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", partial));
  }
  return PartialFile(*path, std::move(partial), std::move(handle));
}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : path_(std::move(other.path_)),
      handle_(std::move(other.handle_)),
      bytes_(other.bytes_),
      error_(other.error_) {
  partial_.swap(other.partial_);
}

PartialFile::~PartialFile() {
  if (!partial_.empty()) std::remove(partial_.c_str());
}

bool PartialFile::Append(absl::string_view bytes) {
  if (error_ != 0) return false;
  if (std::fwrite(bytes.data(), 1, bytes.size(), handle_.get()) !=
      bytes.size()) {
    error_ = errno;
    return false;
  }
  bytes_ += bytes.size();
  return true;
}

absl::Status PartialFile::Close() {
  std::FILE* file = handle_.release();
  if (error_ == 0 && (std::fflush(file) != 0 || ::fsync(::fileno(file)) != 0)) {
    error_ = errno;
  }
  if (std::fclose(file) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error_, absl::StrCat("cannot write ", partial_));
}

absl::Status PartialFile::Replace() {
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }
  partial_.clear();
  SyncFolderOf(path_);
  return absl::OkStatus();
}

absl::Status PartialFile::Keep() {
  if (::link(partial_.c_str(), path_.c_str()) == 0) {
    SyncFolderOf(path_);
    return absl::OkStatus();
  }
  if (errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(path_, " exists; choose another name"));
  }
  // The file system has no hard links.
  return Replace();
}

absl::Status WriteWholeFile(const std::string& path, absl::string_view bytes) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  file->Append(bytes);
  absl::Status status = file->Close();
  if (status.ok()) status = file->Replace();
  return status;
}

}  // namespace gpupool::client
