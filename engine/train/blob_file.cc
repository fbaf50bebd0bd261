#include "engine/train/blob_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/full_disk.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// The leading dot distinguishes temporary files from blobs.
constexpr char kTemporaryPattern[] = "/.checkpoint-XXXXXX";

absl::Status SystemError(absl::string_view what) {
  const int error = errno;
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return FullDiskError(
        absl::StrCat(text, "; free space in the state folder"));
  }
  return absl::InternalError(text);
}

// A file that is removed at the end unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& folder)
      : path_(folder + kTemporaryPattern),
        descriptor_(mkostemp(path_.data(), O_CLOEXEC)) {}
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (descriptor_ >= 0 && !renamed_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool opened() const { return descriptor_ >= 0; }

  absl::Status Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SystemError("cannot write a checkpoint");
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::Status MoveTo(const std::string& path) {
    // Lets the daemon's group read it, like other blobs. The bytes must be on
    // disk before the name: after a power cut a named blob is taken for whole.
    if (fchmod(descriptor_, 0640) != 0 || fsync(descriptor_) != 0) {
      return SystemError("cannot flush a checkpoint");
    }
    if (rename(path_.c_str(), path.c_str()) != 0) {
      return SystemError("cannot rename a checkpoint");
    }
    renamed_ = true;
    return absl::OkStatus();
  }

 private:
  std::string path_;
  int descriptor_;
  bool renamed_ = false;
};

// Puts the names in the folder on stable storage.
absl::Status FlushFolder(const std::string& folder) {
  const int descriptor =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("cannot open the blob folder");
  const int result = fsync(descriptor);
  close(descriptor);
  return result == 0 ? absl::OkStatus()
                     : SystemError("cannot flush the blob folder");
}

}  // namespace

absl::StatusOr<WrittenBlob> WriteBlob(
    const std::string& blob_dir, absl::Span<const absl::string_view> parts) {
  Sha256 sha;
  WrittenBlob blob;
  for (absl::string_view part : parts) {
    sha.Update(part.data(), part.size());
    blob.bytes += part.size();
  }
  blob.sha256 = sha.FinishHex();
  const std::string path = absl::StrCat(blob_dir, "/", blob.sha256);
  // Succeeds if the blob exists: the check and the renewal are one step.
  if (utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) {
    return blob;
  }
  TemporaryFile file(blob_dir);
  if (!file.opened()) return SystemError("cannot create a checkpoint");
  for (absl::string_view part : parts) RETURN_IF_ERROR(file.Write(part));
  RETURN_IF_ERROR(file.MoveTo(path));
  // Without this, a power cut could undo the rename.
  RETURN_IF_ERROR(FlushFolder(blob_dir));
  return blob;
}

absl::StatusOr<MappedFile> ReadBlob(const std::string& blob_dir,
                                    const std::string& sha256) {
  if (!IsSha256Hex(sha256)) {
    return absl::InvalidArgumentError(
        "a checkpoint is named by 64 lower-case hex digits");
  }
  auto file = MappedFile::Open(absl::StrCat(blob_dir, "/", sha256));
  if (!file.ok()) {
    return absl::Status(
        file.status().code(),
        absl::StrCat("checkpoint file ", sha256, " cannot be opened"));
  }
  if (Sha256Hex(file->bytes()) != sha256) {
    return absl::DataLossError(absl::StrCat("checkpoint file ", sha256,
                                            ": the stored bytes do not match"));
  }
  return file;
}

}  // namespace gpupool::engine
