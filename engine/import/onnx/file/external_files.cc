#include "engine/import/onnx/file/external_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::onnx_import {
namespace {

absl::Status RefuseLocation(absl::string_view location, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("external data '", location, "': ", why));
}

// Refuses a bad location with a clear message. The kernel refuses it as well.
absl::Status CheckLocation(absl::string_view location) {
  if (location.empty() || location.size() > 4096 ||
      absl::StrContains(location, absl::string_view("\0", 1))) {
    return RefuseLocation(
        "", "the location is empty, too long or holds a zero byte");
  }
  if (location[0] == '/')
    return RefuseLocation(location, "it must be relative");
  for (absl::string_view part : absl::StrSplit(location, '/')) {
    if (part == "..")
      return RefuseLocation(location, "it must not go up with '..'");
  }
  return absl::OkStatus();
}

int OpenBeneath(int folder, const std::string& location) {
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // never wait for a pipe
  // The kernel resolves the path as a whole, so no link can be put into it
  // meanwhile.
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(
      syscall(SYS_openat2, folder, location.c_str(), &how, sizeof(how)));
}

}  // namespace

ExternalFiles ExternalFiles::Beneath(std::string folder) {
  ExternalFiles files;
  files.folder_ = folder.empty() ? "." : std::move(folder);
  return files;
}

ExternalFiles ExternalFiles::Listed(
    absl::flat_hash_map<std::string, std::string> paths) {
  ExternalFiles files;
  files.paths_ = std::move(paths);
  return files;
}

absl::StatusOr<int> ExternalFiles::OpenLocation(
    absl::string_view location) const {
  RETURN_IF_ERROR(CheckLocation(location));
  int file = -1;
  if (!folder_.empty()) {
    const int folder = open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
      return RefuseLocation(location, "the model's folder is gone");
    const absl::Cleanup close_folder = [folder] { close(folder); };
    file = OpenBeneath(folder, std::string(location));
  } else {
    const auto found = paths_.find(location);
    if (found == paths_.end()) {
      return RefuseLocation(
          location,
          "the model refers to this file, but it was not given; "
          "upload it with the model");
    }
    file = open(found->second.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  if (file < 0) return RefuseLocation(location, std::strerror(errno));
  // The type of the open file, since another one may have been put in its
  // place.
  struct stat status = {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return RefuseLocation(location, "it is not a regular file");
  }
  return file;
}

absl::StatusOr<uint64_t> ExternalFiles::Size(absl::string_view location) const {
  if (model_ != nullptr && location == kModelLocation) {
    return model_->bytes().size();
  }
  ASSIGN_OR_RETURN(const int file, OpenLocation(location));
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat status = {};
  if (fstat(file, &status) != 0)
    return RefuseLocation(location, std::strerror(errno));
  return static_cast<uint64_t>(status.st_size);
}

absl::Status ExternalFiles::ReadModel(uint64_t offset,
                                      absl::Span<std::byte> to) const {
  RETURN_IF_ERROR(model_->CheckWhole());
  const uint64_t size = model_->bytes().size();
  // The subtraction avoids an overflow.
  if (offset > size || to.size() > size - offset) {
    return absl::DataLossError(
        absl::StrCat("the model file ends at byte ", size,
                     ", before the data of a tensor do"));
  }
  if (!to.empty()) {
    std::memcpy(to.data(), model_->bytes().data() + offset, to.size());
  }
  return absl::OkStatus();
}

absl::Status ExternalFiles::Read(absl::string_view location, uint64_t offset,
                                 absl::Span<std::byte> to) const {
  if (model_ != nullptr && location == kModelLocation) {
    return ReadModel(offset, to);
  }
  ASSIGN_OR_RETURN(const int file, OpenLocation(location));
  const absl::Cleanup close_file = [file] { close(file); };
  while (!to.empty()) {
    const ssize_t got =
        pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrCat("external data '", location,
                                              "' ends at byte ", offset,
                                              ", before its tensor does"));
    }
    to.remove_prefix(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine::onnx_import
