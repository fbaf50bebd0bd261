#include "server/store/partial_blobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/store/blob_files.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kSyncBytes = uint64_t{64} << 20;
// Kept bytes that are read and hashed with each chunk of a resumed upload, so
// that no call of Append takes long.
constexpr uint64_t kHashBytes = uint64_t{8} << 20;
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kLeastKeyDigits = 32;
constexpr size_t kMostKeyDigits = 64;
constexpr char kSidecarEnd[] = ".info";

bool Contains(const UploadKeys& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

absl::Status TakenOver() {
  return absl::AbortedError(
      "another stream has taken this upload over; ask GetUpload how many bytes "
      "there are, and upload again");
}

}  // namespace

bool IsUploadKey(absl::string_view text) {
  return text.size() >= kLeastKeyDigits && text.size() <= kMostKeyDigits &&
         std::all_of(text.begin(), text.end(), [](char digit) {
           return (digit >= '0' && digit <= '9') ||
                  (digit >= 'a' && digit <= 'f');
         });
}

// Writes one upload from its offset on. The digest lags behind the file while
// kept bytes are not hashed yet.
class PartialBlobs::Writer : public BlobWriter {
 public:
  Writer(PartialBlobs* owner, const PartialUpload& upload, uint64_t stream,
         BlobFile file)
      : owner_(owner),
        upload_(upload),
        stream_(stream),
        file_(std::move(file)),
        written_(upload.offset) {}

  ~Writer() override {
    const bool keep = !drop_ && !moved_ && written_ > 0;
    if (keep) Keep();
    owner_->Release(upload_.key, stream_, keep);
  }

  absl::Status Append(absl::string_view bytes) override {
    if (status_.ok()) status_ = Write(bytes);
    return status_;
  }

  absl::Status Commit() override {
    if (status_.ok()) status_ = Finish();
    return status_;
  }

  void Forget() override { drop_ = true; }
  uint64_t bytes_written() const override { return written_; }

 private:
  absl::Status Write(absl::string_view bytes) {
    // `written_` never exceeds the total, so the subtraction cannot wrap.
    if (bytes.size() > upload_.total_bytes - written_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "more bytes than the ", upload_.total_bytes, " that were announced"));
    }
    // Held, because a write that came after another stream's Commit would
    // change a blob.
    RETURN_IF_ERROR(owner_->Hold(upload_.key, stream_));
    RETURN_IF_ERROR(WriteAt(file_.fd(), bytes, written_));
    if (hashed_ == written_) {
      digest_.Update(bytes.data(), bytes.size());
      hashed_ += bytes.size();
    }
    written_ += bytes.size();
    RETURN_IF_ERROR(HashUpTo(std::min(written_, hashed_ + kHashBytes)));
    if (written_ - synced_ >= kSyncBytes) RETURN_IF_ERROR(Sync());
    return owner_->Advance(upload_.key, stream_, written_);
  }

  // Reads back what was not hashed yet.
  absl::Status HashUpTo(uint64_t end) {
    std::string piece(hashed_ < end ? kPieceBytes : 0, '\0');
    while (hashed_ < end) {
      const size_t wanted = std::min<uint64_t>(piece.size(), end - hashed_);
      const ssize_t count =
          pread(file_.fd(), piece.data(), wanted, static_cast<off_t>(hashed_));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError("reading a partial upload");
      if (count == 0) return absl::InternalError("a partial upload shrank");
      digest_.Update(piece.data(), static_cast<size_t>(count));
      hashed_ += static_cast<uint64_t>(count);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() {
    if (fsync(file_.fd()) != 0) return FileError("syncing");
    synced_ = written_;
    return WriteSidecar(owner_->SidecarOf(upload_.key),
                        {.sha256 = upload_.sha256,
                         .total_bytes = upload_.total_bytes,
                         .durable_bytes = synced_,
                         .boot_id = owner_->boot_id_,
                         .tenant = upload_.tenant});
  }

  // Makes the bytes durable, unless another stream has taken over. Cuts off a
  // chunk that was written in part.
  void Keep() {
    if (!owner_->Hold(upload_.key, stream_).ok()) return;
    if (!status_.ok() &&
        ftruncate(file_.fd(), static_cast<off_t>(written_)) != 0) {
      return;
    }
    if (Sync().ok()) {
      owner_->Advance(upload_.key, stream_, written_).IgnoreError();
    }
  }

  absl::Status Finish() {
    if (written_ != upload_.total_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("only ", written_, " of the ", upload_.total_bytes,
                       " bytes that were announced arrived"));
    }
    RETURN_IF_ERROR(owner_->Hold(upload_.key, stream_));
    RETURN_IF_ERROR(HashUpTo(written_));
    const std::string found = digest_.FinishHex();
    if (found != upload_.sha256) return WrongDigest(found);
    // Bytes, then name, then folder, as for other blobs.
    RETURN_IF_ERROR(Sync());
    // The sweep of unused blobs must not take it for an old one.
    if (futimens(file_.fd(), nullptr) != 0) return FileError("dating a blob");
    RETURN_IF_ERROR(GiveName());
    return SyncFolder(owner_->blobs_);
  }

  absl::Status WrongDigest(const std::string& found) {
    drop_ = true;
    const std::string text = absl::StrCat("the bytes have sha256 ", found,
                                          ", announced was ", upload_.sha256);
    if (upload_.offset == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(text, "; send them again"));
    }
    return absl::AbortedError(absl::StrCat(
        text, "; the ", upload_.offset,
        " bytes that were kept are deleted; upload from offset 0"));
  }

  // Names the file as a blob, over a blob of that name. The partial file keeps
  // its own name.
  absl::Status GiveName() {
    const std::string from = owner_->PathOf(upload_.key);
    const std::string blob = absl::StrCat(owner_->blobs_, "/", upload_.sha256);
    const std::string between =
        absl::StrCat(owner_->blobs_, "/.incoming-", upload_.key);
    unlink(between.c_str());
    if (link(from.c_str(), between.c_str()) == 0) {
      const bool renamed = rename(between.c_str(), blob.c_str()) == 0;
      const int error = errno;
      // Rename does nothing if both names are the same file already.
      unlink(between.c_str());
      errno = error;
      return renamed ? absl::OkStatus() : FileError("renaming");
    }
    // A file system without links: the file gets its new name at once.
    if (rename(from.c_str(), blob.c_str()) != 0) return FileError("renaming");
    moved_ = true;
    return absl::OkStatus();
  }

  PartialBlobs* const owner_;
  const PartialUpload upload_;
  const uint64_t stream_;
  const BlobFile file_;
  uint64_t written_;
  uint64_t hashed_ = 0;
  uint64_t synced_ = 0;
  engine::Sha256 digest_;
  absl::Status status_;
  bool drop_ = false;
  bool moved_ = false;
};

PartialBlobs::PartialBlobs(const std::string& blobs,
                           const PartialOptions& options)
    : blobs_(blobs),
      folder_(absl::StrCat(blobs, "/partial")),
      boot_id_(MachineBootId()),
      options_(options) {}

std::string PartialBlobs::PathOf(absl::string_view key) const {
  return absl::StrCat(folder_, "/", key);
}

std::string PartialBlobs::SidecarOf(absl::string_view key) const {
  return absl::StrCat(folder_, "/", key, kSidecarEnd);
}

absl::StatusOr<std::unique_ptr<PartialBlobs>> PartialBlobs::Open(
    const std::string& blobs, const PartialOptions& options) {
  auto partials = absl::WrapUnique(new PartialBlobs(blobs, options));
  RETURN_IF_ERROR(partials->Load());
  partials->Sweep(options.now());
  return partials;
}

absl::Status PartialBlobs::Load() {
  if (access(folder_.c_str(), F_OK) != 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder_));
  absl::MutexLock lock(&mutex_);
  for (const std::string& name : names) {
    if (IsUploadKey(name)) LoadOne(name);
  }
  for (const std::string& name : names) {
    // Sidecars without their file, and those that were not renamed.
    const std::string key = name.substr(0, name.find('.'));
    if (!IsUploadKey(key) || entries_.contains(key)) continue;
    unlink(absl::StrCat(folder_, "/", name).c_str());
  }
  return absl::OkStatus();
}

void PartialBlobs::LoadOne(const std::string& key) {
  const absl::StatusOr<UploadSidecar> sidecar = ReadSidecar(SidecarOf(key));
  struct stat info;
  if (!sidecar.ok() || lstat(PathOf(key).c_str(), &info) != 0 ||
      !S_ISREG(info.st_mode)) {
    return RemoveFiles(key);
  }
  uint64_t bytes = static_cast<uint64_t>(info.st_size);
  // A file with a second name was complete and synced, and must not be cut off.
  const bool complete = info.st_nlink > 1;
  const bool same_boot =
      sidecar->boot_id == boot_id_ && sidecar->boot_id != "unknown";
  if (!complete && !same_boot && bytes > sidecar->durable_bytes) {
    bytes = sidecar->durable_bytes;
    if (truncate(PathOf(key).c_str(), static_cast<off_t>(bytes)) != 0) {
      return RemoveFiles(key);
    }
  }
  if (bytes == 0 || bytes > sidecar->total_bytes) return RemoveFiles(key);
  Entry& entry = entries_[key];
  entry.sha256 = sidecar->sha256;
  entry.tenant = sidecar->tenant;
  entry.total_bytes = sidecar->total_bytes;
  entry.bytes = bytes;
  entry.written = absl::TimeFromTimespec(info.st_mtim);
}

void PartialBlobs::RemoveFiles(absl::string_view key) const {
  unlink(PathOf(key).c_str());
  unlink(SidecarOf(key).c_str());
}

bool PartialBlobs::InUse(const Entry& entry) const {
  return entry.stream != 0 &&
         (entry.held || options_.now() - entry.written < options_.silence);
}

PartialBlobs::Entries::iterator PartialBlobs::Oldest(const UploadKeys& except) {
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->second.stream != 0 || Contains(except, entry->first)) continue;
    if (oldest == entries_.end() ||
        entry->second.written < oldest->second.written) {
      oldest = entry;
    }
  }
  return oldest;
}

void PartialBlobs::Remove(Entries::iterator entry) {
  RemoveFiles(entry->first);
  entries_.erase(entry);
}

absl::Status PartialBlobs::CheckLimits(const PartialUpload& upload) const {
  uint64_t files = 0, bytes = 0;
  for (const auto& [key, entry] : entries_) {
    if (entry.stream == 0) continue;
    ++files;
    bytes += entry.total_bytes;
  }
  if (files >= options_.most_files) {
    return absl::ResourceExhaustedError(absl::StrCat(
        files, " files are being uploaded and at most ", options_.most_files,
        " may be; upload again later, or start gpupoold with a larger "
        "--upload-files"));
  }
  // Limits are far below 2^63, so that only the file's own size may be large.
  if (bytes <= options_.most_bytes &&
      upload.total_bytes <= options_.most_bytes - bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the file has ", upload.total_bytes, " bytes and other open uploads ",
      bytes, "; together they may have ", options_.most_bytes,
      "; upload again later, or start gpupoold with a larger --upload-bytes"));
}

void PartialBlobs::DropUntilFits(const PartialUpload& upload) {
  uint64_t announced = upload.total_bytes;
  for (const auto& [key, entry] : entries_) announced += entry.total_bytes;
  while (entries_.size() >= options_.most_files ||
         announced > options_.most_bytes) {
    const auto oldest = Oldest(/*except=*/{});
    if (oldest == entries_.end()) return;
    announced -= oldest->second.total_bytes;
    Remove(oldest);
  }
}

absl::StatusOr<PartialBlobs::Entries::iterator> PartialBlobs::Add(
    const PartialUpload& upload) {
  RETURN_IF_ERROR(CheckLimits(upload));
  DropUntilFits(upload);
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("creating the folder of partial uploads");
  }
  RemoveFiles(upload.key);
  {
    const BlobFile file(open(PathOf(upload.key).c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.fd() < 0) return FileError("creating a file");
  }
  RETURN_IF_ERROR(
      WriteSidecar(SidecarOf(upload.key), {.sha256 = upload.sha256,
                                           .total_bytes = upload.total_bytes,
                                           .durable_bytes = 0,
                                           .boot_id = boot_id_,
                                           .tenant = upload.tenant}));
  RETURN_IF_ERROR(SyncFolder(folder_));
  Entry& entry = entries_[upload.key];
  entry.sha256 = upload.sha256;
  entry.tenant = upload.tenant;
  entry.total_bytes = upload.total_bytes;
  return entries_.find(upload.key);
}

absl::StatusOr<BlobFile> PartialBlobs::OpenAt(
    const PartialUpload& upload) const {
  BlobFile file(
      open(PathOf(upload.key).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (file.fd() < 0) return FileError("opening a partial upload");
  struct stat info;
  if (fstat(file.fd(), &info) != 0) return FileError("measuring an upload");
  const uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < upload.offset) {
    return absl::InternalError("a partial upload lost bytes; upload again");
  }
  if (bytes == upload.offset) return file;
  if (info.st_nlink > 1) {
    return absl::AbortedError("the upload is stored; upload from offset 0");
  }
  // First the sidecar, durably: it must not call bytes durable that come later.
  ASSIGN_OR_RETURN(UploadSidecar sidecar, ReadSidecar(SidecarOf(upload.key)));
  sidecar.durable_bytes = std::min(sidecar.durable_bytes, upload.offset);
  RETURN_IF_ERROR(WriteSidecar(SidecarOf(upload.key), sidecar));
  RETURN_IF_ERROR(SyncFolder(folder_));
  if (ftruncate(file.fd(), static_cast<off_t>(upload.offset)) != 0) {
    return FileError("cutting off a partial upload");
  }
  return file;
}

absl::Status PartialBlobs::CheckResumable(const PartialUpload& upload,
                                          const Entry* entry) const {
  if (upload.offset == 0) return absl::OkStatus();
  if (entry != nullptr && InUse(*entry)) {
    return absl::AbortedError(
        "the upload is being written by another stream; ask GetUpload again "
        "until it is not in use, or upload from offset 0");
  }
  if (entry != nullptr && (entry->sha256 != upload.sha256 ||
                           entry->total_bytes != upload.total_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the upload_key belongs to a file of ", entry->total_bytes,
                     " bytes with sha256 ", entry->sha256, ", not of ",
                     upload.total_bytes, " bytes with ", upload.sha256,
                     "; use another key, or upload from offset 0"));
  }
  const uint64_t kept = entry == nullptr ? 0 : entry->bytes;
  // A complete file may be a blob, too, and is never cut off.
  const bool cuts_complete = kept == upload.total_bytes && upload.offset < kept;
  if (upload.offset <= kept && !cuts_complete) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "offset is ", upload.offset, ", but ", kept, " of the ",
      upload.total_bytes,
      " bytes of the upload are kept; ask GetUpload and upload from there"));
}

absl::StatusOr<std::unique_ptr<BlobWriter>> PartialBlobs::Begin(
    const PartialUpload& upload) {
  absl::MutexLock lock(&mutex_);
  auto found = entries_.find(upload.key);
  const bool busy = found != entries_.end() && InUse(found->second);
  const bool keeps = options_.keep > absl::ZeroDuration();
  if ((busy || !keeps) && upload.offset == 0) {
    return std::unique_ptr<BlobWriter>();
  }
  RETURN_IF_ERROR(CheckResumable(
      upload, found == entries_.end() ? nullptr : &found->second));
  if (upload.offset == 0 && found != entries_.end()) {
    Remove(found);
    found = entries_.end();
  }
  if (found == entries_.end()) {
    ASSIGN_OR_RETURN(found, Add(upload));
  }
  auto file = OpenAt(upload);
  if (!file.ok()) {
    Remove(found);
    return file.status();
  }
  found->second.bytes = upload.offset;
  found->second.written = options_.now();
  found->second.stream = ++last_stream_;
  found->second.held = false;
  return std::make_unique<Writer>(this, upload, last_stream_, *std::move(file));
}

absl::StatusOr<KeptUpload> PartialBlobs::Find(absl::string_view key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(std::string(key));
  if (found == entries_.end()) {
    return absl::NotFoundError(
        "nothing is kept of this upload; upload from offset 0");
  }
  const Entry& entry = found->second;
  return KeptUpload{.sha256 = entry.sha256,
                    .total_bytes = entry.total_bytes,
                    .bytes = entry.bytes,
                    .in_use = InUse(entry),
                    .expires = entry.written + options_.keep};
}

std::map<std::string, uint64_t> PartialBlobs::BytesByTenant(
    const UploadKeys& except) const {
  absl::MutexLock lock(&mutex_);
  std::map<std::string, uint64_t> bytes;
  for (const auto& [key, entry] : entries_) {
    if (!Contains(except, key)) bytes[entry.tenant] += entry.total_bytes;
  }
  return bytes;
}

SweepResult PartialBlobs::Sweep(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  SweepResult result;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->second.stream == 0 &&
        now - entry->second.written >= options_.keep) {
      ++result.removed_files;
      result.removed_bytes += entry->second.bytes;
      Remove(entry);
    }
    entry = next;
  }
  return result;
}

uint64_t PartialBlobs::IdleBytes(const UploadKeys& except) const {
  absl::MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const auto& [key, entry] : entries_) {
    if (entry.stream == 0 && !Contains(except, key)) bytes += entry.bytes;
  }
  return bytes;
}

bool PartialBlobs::DropOldest(const UploadKeys& except) {
  absl::MutexLock lock(&mutex_);
  const auto oldest = Oldest(except);
  if (oldest == entries_.end()) return false;
  Remove(oldest);
  return true;
}

absl::Status PartialBlobs::Advance(const std::string& key, uint64_t stream,
                                   uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.stream != stream) {
    return TakenOver();
  }
  found->second.bytes = bytes;
  found->second.held = false;
  found->second.written = options_.now();
  return absl::OkStatus();
}

absl::Status PartialBlobs::Hold(const std::string& key, uint64_t stream) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.stream != stream) {
    return TakenOver();
  }
  found->second.held = true;
  return absl::OkStatus();
}

void PartialBlobs::Release(const std::string& key, uint64_t stream, bool keep) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.stream != stream) return;
  if (!keep) return Remove(found);
  found->second.stream = 0;
}

}  // namespace gpupool::server
