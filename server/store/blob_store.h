// Files named by the SHA-256 of their bytes: datasets, checkpoint data and
// manifests. A file appears under its name only when it is complete, checked
// and on stable storage (temporary file, fsync, rename, fsync of the folder),
// and never changes afterwards. Workers read and write the same folder by the
// same rule.
//
// Thread-safety: any thread may use a BlobStore. A BlobWriter belongs to one
// caller at a time and must not outlive its store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::server {

// Owns a file descriptor.
class BlobFile {
 public:
  explicit BlobFile(int fd) : fd_(fd) {}
  BlobFile(BlobFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  BlobFile& operator=(BlobFile&& other) noexcept;
  ~BlobFile();
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Writes one blob. Destroying it before Commit leaves nothing behind.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;

  // Appends bytes. InvalidArgument above the announced size; ResourceExhausted
  // when the disk is full. After an error the writer refuses everything.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Makes the blob visible. InvalidArgument when bytes are missing or the
  // digest differs (names both). Storing a blob again is harmless, since its
  // bytes are the same. Call once.
  virtual absl::Status Commit() = 0;
  virtual uint64_t bytes_written() const = 0;
};

struct SweepResult {
  uint64_t removed_files = 0;
  uint64_t removed_bytes = 0;
};

class BlobStore {
 public:
  // Opens the folder and creates it if necessary.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      const std::string& directory);

  // Begins a blob. `sha256` is 64 lower-case hexadecimal digits, `bytes` the
  // exact size. ResourceExhausted, with path, free bytes and remedy, without
  // room for it.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Create(absl::string_view sha256,
                                                     uint64_t bytes) const;
  // Stores bytes from memory and returns their digest.
  absl::StatusOr<std::string> Put(absl::string_view bytes) const;

  // Opens a blob for reading. NotFound names the digest.
  absl::StatusOr<BlobFile> OpenBlob(absl::string_view sha256) const;
  absl::StatusOr<uint64_t> Size(absl::string_view sha256) const;
  bool Contains(absl::string_view sha256) const;
  // Returns the whole blob. ResourceExhausted when it is larger than
  // `limit_bytes`; DataLoss when its bytes do not match its name.
  absl::StatusOr<std::string> Read(absl::string_view sha256,
                                   uint64_t limit_bytes) const;
  // Deletes a blob. No-op for an unknown one.
  absl::Status Delete(absl::string_view sha256) const;

  // Removes unreferenced blobs and temporary files that were last written more
  // than `min_age` before `now`. Younger ones may be about to be referenced.
  absl::StatusOr<SweepResult> Sweep(
      const absl::flat_hash_set<std::string>& referenced,
      absl::Duration min_age, absl::Time now) const;

  // Returns the bytes of the file system that are free for us.
  absl::StatusOr<uint64_t> FreeBytes() const;
  const std::string& directory() const { return directory_; }

 private:
  explicit BlobStore(std::string directory);
  std::string PathOf(absl::string_view name) const;

  std::string directory_;
};

}  // namespace gpupool::server
