#include "server/store/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/store/blob_files.h"

namespace gpupool::server {
namespace {

// No digest, so that a temporary file is never taken for a blob.
constexpr char kTemporaryPrefix[] = ".incoming-";
constexpr size_t kReadChunkBytes = 1 << 20;
// Free bytes that are left to the database and the workers.
constexpr uint64_t kSpareBytes = uint64_t{4} << 20;

// Converts, since Debian's Abseil has a string_view of its own.
std::string_view AsStd(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

bool IsDigest(absl::string_view text) {
  return engine::IsSha256Hex(AsStd(text));
}

absl::Status CheckDigest(absl::string_view sha256) {
  if (IsDigest(sha256)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a sha256 must be 64 lower-case hexadecimal digits");
}

// File that holds the bytes until they are all there.
struct TemporaryFile {
  std::string path;
  BlobFile file;
};

class FileBlobWriter : public BlobWriter {
 public:
  FileBlobWriter(std::string directory, TemporaryFile temporary,
                 std::string sha256, uint64_t bytes)
      : directory_(std::move(directory)),
        temporary_(std::move(temporary)),
        wanted_sha256_(std::move(sha256)),
        wanted_bytes_(bytes) {}

  ~FileBlobWriter() override {
    if (!committed_) unlink(temporary_.path.c_str());
  }

  absl::Status Append(absl::string_view bytes) override {
    if (status_.ok()) status_ = Write(bytes);
    return status_;
  }

  absl::Status Commit() override {
    if (status_.ok()) status_ = Finish();
    return status_;
  }

  uint64_t bytes_written() const override { return written_; }

 private:
  absl::Status Write(absl::string_view bytes) {
    // `written_` never exceeds `wanted_bytes_`, so the subtraction cannot wrap.
    if (bytes.size() > wanted_bytes_ - written_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "more bytes than the ", wanted_bytes_, " that were announced"));
    }
    digest_.Update(bytes.data(), bytes.size());
    const uint64_t place = written_;
    written_ += bytes.size();
    return WriteAt(temporary_.file.fd(), bytes, place);
  }

  absl::Status Finish() {
    if (written_ != wanted_bytes_) {
      return absl::InvalidArgumentError(
          absl::StrCat("only ", written_, " of the ", wanted_bytes_,
                       " bytes that were announced arrived"));
    }
    const std::string found = digest_.FinishHex();
    if (found != wanted_sha256_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the bytes have sha256 ", found, ", announced was ",
                       wanted_sha256_, "; send them again"));
    }
    // The order makes the blob durable: bytes, then name, then folder. A crash
    // in between leaves a temporary file, which the sweep removes.
    if (fsync(temporary_.file.fd()) != 0) return FileError("syncing");
    const std::string path = absl::StrCat(directory_, "/", wanted_sha256_);
    if (rename(temporary_.path.c_str(), path.c_str()) != 0) {
      return FileError("renaming");
    }
    // The temporary name is gone from here on, whether the folder syncs or not.
    committed_ = true;
    return SyncFolder(directory_);
  }

  const std::string directory_;
  const TemporaryFile temporary_;
  const std::string wanted_sha256_;
  const uint64_t wanted_bytes_;
  uint64_t written_ = 0;
  engine::Sha256 digest_;
  absl::Status status_;
  bool committed_ = false;
};

}  // namespace

BlobStore::BlobStore(std::string directory,
                     std::unique_ptr<PartialBlobs> partials)
    : directory_(std::move(directory)), partials_(std::move(partials)) {}

std::string BlobStore::PathOf(absl::string_view name) const {
  return absl::StrCat(directory_, "/", name);
}

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(
    const std::string& directory, const PartialOptions& kept) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("creating the folder");
  }
  // A folder that cannot be synced would lose blobs in a crash. That is found
  // at the start.
  RETURN_IF_ERROR(SyncFolder(directory));
  ASSIGN_OR_RETURN(auto partials, PartialBlobs::Open(directory, kept));
  return absl::WrapUnique(new BlobStore(directory, std::move(partials)));
}

absl::StatusOr<uint64_t> BlobStore::MakeRoom(uint64_t bytes,
                                             const UploadKeys& except) const {
  // Subtracts rather than adds, because a sum with a client's number of bytes
  // could overflow.
  const auto fits = [bytes](uint64_t free) {
    return free >= kSpareBytes && free - kSpareBytes >= bytes;
  };
  ASSIGN_OR_RETURN(uint64_t free, FreeBytes());
  while (!fits(free) && fits(free + partials_->IdleBytes(except)) &&
         partials_->DropOldest(except)) {
    ASSIGN_OR_RETURN(free, FreeBytes());
  }
  return free;
}

absl::Status BlobStore::CheckRoom(uint64_t bytes,
                                  const UploadKeys& except) const {
  ASSIGN_OR_RETURN(const uint64_t free, MakeRoom(bytes, except));
  if (free >= kSpareBytes && free - kSpareBytes >= bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("the disk of ", directory_, " has no room for ", bytes,
                   " bytes: ", free, " are free, of which ", kSpareBytes,
                   " are kept; delete files there or enlarge the disk"));
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Create(
    absl::string_view sha256, uint64_t bytes) const {
  RETURN_IF_ERROR(CheckDigest(sha256));
  RETURN_IF_ERROR(CheckRoom(bytes, /*except=*/{}));
  // In the same folder, because rename works only within a file system.
  std::string temporary = PathOf(absl::StrCat(kTemporaryPrefix, "XXXXXX"));
  BlobFile file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd() < 0) return FileError("creating a file");
  return std::make_unique<FileBlobWriter>(
      directory_, TemporaryFile{std::move(temporary), std::move(file)},
      std::string(sha256), bytes);
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Begin(
    const PartialUpload& upload) const {
  if (upload.key.empty()) return Create(upload.sha256, upload.total_bytes);
  RETURN_IF_ERROR(CheckDigest(upload.sha256));
  if (upload.offset > upload.total_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset is ", upload.offset, "; the file has ",
                     upload.total_bytes, " bytes"));
  }
  RETURN_IF_ERROR(CheckRoom(upload.total_bytes - upload.offset, {upload.key}));
  ASSIGN_OR_RETURN(auto writer, partials_->Begin(upload));
  if (writer != nullptr) return writer;
  return Create(upload.sha256, upload.total_bytes);
}

absl::StatusOr<std::string> BlobStore::Put(absl::string_view bytes) const {
  std::string sha256 = engine::Sha256Hex(AsStd(bytes));
  ASSIGN_OR_RETURN(auto writer, Create(sha256, bytes.size()));
  RETURN_IF_ERROR(writer->Append(bytes));
  RETURN_IF_ERROR(writer->Commit());
  return sha256;
}

absl::StatusOr<BlobFile> BlobStore::OpenBlob(absl::string_view sha256) const {
  RETURN_IF_ERROR(CheckDigest(sha256));
  BlobFile file(
      open(PathOf(sha256).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.fd() >= 0) return file;
  if (errno != ENOENT) return FileError("opening a blob");
  return absl::NotFoundError(absl::StrCat("there is no blob ", sha256));
}

absl::StatusOr<uint64_t> BlobStore::Size(absl::string_view sha256) const {
  ASSIGN_OR_RETURN(const BlobFile file, OpenBlob(sha256));
  struct stat info;
  if (fstat(file.fd(), &info) != 0) return FileError("measuring a blob");
  return static_cast<uint64_t>(info.st_size);
}

bool BlobStore::Contains(absl::string_view sha256) const {
  return IsDigest(sha256) && access(PathOf(sha256).c_str(), R_OK) == 0;
}

absl::StatusOr<std::string> BlobStore::Read(absl::string_view sha256,
                                            uint64_t limit_bytes) const {
  ASSIGN_OR_RETURN(const uint64_t size, Size(sha256));
  if (size > limit_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "blob ", sha256, " has ", size, " bytes, more than ", limit_bytes));
  }
  ASSIGN_OR_RETURN(const BlobFile file, OpenBlob(sha256));
  std::string bytes;
  std::string chunk(kReadChunkBytes, '\0');
  // The size was asked of another descriptor. The limit holds even if the file
  // has grown.
  while (bytes.size() <= limit_bytes) {
    const ssize_t count = read(file.fd(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("reading a blob");
    if (count == 0) break;
    bytes.append(chunk.data(), static_cast<size_t>(count));
  }
  if (engine::Sha256Hex(AsStd(bytes)) != sha256) {
    return absl::DataLossError(
        absl::StrCat("the bytes of blob ", sha256,
                     " are not those of its name; restore it from a backup"));
  }
  return bytes;
}

absl::Status BlobStore::Delete(absl::string_view sha256) const {
  RETURN_IF_ERROR(CheckDigest(sha256));
  if (unlink(PathOf(sha256).c_str()) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  return FileError("deleting a blob");
}

absl::StatusOr<SweepResult> BlobStore::Sweep(
    const absl::flat_hash_set<std::string>& referenced, absl::Duration min_age,
    absl::Time now) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListFolder(directory_));
  SweepResult result;
  for (const std::string& name : names) {
    const bool blob = engine::IsSha256Hex(name) && !referenced.contains(name);
    // Temporary files of workers start with a dot, too.
    const bool temporary =
        name.size() > 2 && absl::StartsWith(name, ".") && name != "..";
    if (!blob && !temporary) continue;
    struct stat info;
    const std::string path = PathOf(name);
    if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    // Young files may belong to an upload whose row is not committed yet.
    if (now - absl::TimeFromTimespec(info.st_mtim) < min_age) continue;
    if (unlink(path.c_str()) != 0) continue;
    ++result.removed_files;
    result.removed_bytes += static_cast<uint64_t>(info.st_size);
  }
  return result;
}

absl::StatusOr<uint64_t> BlobStore::FreeBytes() const {
  struct statvfs info;
  if (statvfs(directory_.c_str(), &info) != 0) {
    return FileError("measuring the disk");
  }
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace gpupool::server
