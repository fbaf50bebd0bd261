#include "server/store/blob_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/store/blob_writer.h"

namespace gpupool::server {

BlobFile& BlobFile::operator=(BlobFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

BlobFile::~BlobFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status FileError(absl::string_view what) {
  const int error = errno;
  const std::string text =
      absl::StrCat("blob store: ", what, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EMFILE) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::InternalError(text);
}

absl::Status SyncFolder(const std::string& directory) {
  const BlobFile folder(
      open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd() < 0) return FileError("opening the folder");
  if (fsync(folder.fd()) != 0) return FileError("syncing the folder");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListFolder(
    const std::string& directory) {
  DIR* folder = opendir(directory.c_str());
  if (folder == nullptr) return FileError("listing the folder");
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    names.push_back(entry->d_name);
  }
  closedir(folder);
  return names;
}

absl::Status WriteAt(int fd, absl::string_view bytes, uint64_t place) {
  while (!bytes.empty()) {
    const ssize_t count =
        pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(place));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("writing");
    bytes.remove_prefix(static_cast<size_t>(count));
    place += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
