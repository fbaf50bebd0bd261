// Files named by the SHA-256 of their bytes: datasets, checkpoint data and
// manifests. A file appears under its name only when it is complete, checked
// and on stable storage (temporary file, fsync, rename, fsync of the folder),
// and never changes afterwards. Workers read and write the same folder by the
// same rule.
//
// What arrives of an upload with a key is kept when the upload breaks
// (partial_blobs.h).
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
#include "server/store/blob_writer.h"
#include "server/store/partial_blobs.h"

namespace gpupool::server {

class BlobStore {
 public:
  // Opens the folder and creates it if necessary. Takes over the uploads that
  // an earlier server kept.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      const std::string& directory, const PartialOptions& kept = {});

  // Begins a blob. `sha256` is 64 lower-case hexadecimal digits, `bytes` the
  // exact size. ResourceExhausted, with path, free bytes and remedy, without
  // room for it.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Create(absl::string_view sha256,
                                                     uint64_t bytes) const;
  // Begins a blob at `upload.offset`, or as Create without a key. Errors as
  // from Create and PartialBlobs::Begin.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(
      const PartialUpload& upload) const;
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
  // Returns the same, after deleting kept uploads, the oldest first, until
  // `bytes` have room. Deletes none if that is not enough, and never one with a
  // key in `except`.
  absl::StatusOr<uint64_t> MakeRoom(uint64_t bytes,
                                    const UploadKeys& except = {}) const;
  // The uploads that broke and are kept.
  PartialBlobs& partials() const { return *partials_; }
  const std::string& directory() const { return directory_; }

 private:
  BlobStore(std::string directory, std::unique_ptr<PartialBlobs> partials);
  std::string PathOf(absl::string_view name) const;
  // ResourceExhausted if `bytes` have no room on the disk.
  absl::Status CheckRoom(uint64_t bytes, const UploadKeys& except) const;

  std::string directory_;
  std::unique_ptr<PartialBlobs> partials_;
};

}  // namespace gpupool::server
