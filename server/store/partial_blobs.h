// Uploads that are not complete. Each has a key that its client chose, a file
// with the bytes that have arrived, and a sidecar (upload_sidecar.h). They
// outlive the stream and the daemon, so that the client can go on where the
// bytes end.
//
//   1. The files are `partial/<key>` and `partial/<key>.info` in the folder of
//      the blobs. Their names are no digests there, so nothing takes them for
//      blobs.
//   2. The bytes are synced every 64 MiB, and when a stream ends. After a
//      restart of the daemon all bytes count that the file has. After a restart
//      of the machine only the synced ones count, so at most 64 MiB are sent
//      again.
//   3. An upload has at most one stream that writes it. It loses the upload to
//      another stream when it has sent nothing for PartialOptions::silence,
//      since the connection of a client that went away may look open. It does
//      not lose it during a write, nor once Commit has begun.
//   4. A complete file becomes a blob by a second name for it (link). It is
//      kept under the first name until Forget, so that a client that gets no
//      answer need not send it again.
//
// Thread-safety: any thread. Writers must not outlive their PartialBlobs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/blob_writer.h"
#include "server/store/upload_sidecar.h"

namespace gpupool::server {

struct PartialOptions {
  // Time after its last bytes for which an upload is kept. Zero: none is kept.
  absl::Duration keep = absl::Hours(24);
  // Time without bytes after which a stream loses its upload to another.
  absl::Duration silence = absl::Seconds(10);
  uint32_t most_files = 1024;  // open and kept ones together
  // Announced bytes of all files, open and kept ones together.
  uint64_t most_bytes = uint64_t{32} << 30;
  std::function<absl::Time()> now = [] { return absl::Now(); };
};

struct PartialUpload {
  std::string key;  // empty: nothing is kept
  std::string sha256;
  uint64_t total_bytes = 0;
  uint64_t offset = 0;      // of the first byte that will be appended
  std::string tenant = {};  // of the uploader, without a space; empty: none
};

// The state of an upload.
struct KeptUpload {
  std::string sha256;
  uint64_t total_bytes = 0;
  uint64_t bytes = 0;  // that have arrived
  bool in_use = false;
  absl::Time expires;  // if not in use
};

using UploadKeys = std::vector<std::string>;

// Returns whether `text` has the form of a key: 32 to 64 lower-case hex digits.
bool IsUploadKey(absl::string_view text);

class PartialBlobs {
 public:
  // Takes over what an earlier daemon kept in `blobs`, the folder of the blobs.
  // Deletes what is damaged or has expired.
  static absl::StatusOr<std::unique_ptr<PartialBlobs>> Open(
      const std::string& blobs, const PartialOptions& options);

  // Begins or continues an upload, whose key, digest and offset have the right
  // form. Bytes that are kept from the offset on are dropped. Returns null if
  // the upload begins at 0 and cannot be kept, because a stream is writing it
  // or nothing is kept. Errors:
  //   * InvalidArgument: bytes of another file are kept under the key
  //   * Aborted: fewer bytes than the offset are kept, or a stream is writing
  //   * ResourceExhausted: too many files or bytes are announced by open
  //     streams; kept ones are deleted to make room, the oldest first
  //
  // The writer returns Aborted when another stream has taken over, and from
  // Commit when bytes of an earlier stream were wrong. It keeps the bytes when
  // it is destroyed, unless the digest was wrong or Forget was called.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(const PartialUpload& upload)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // NotFound if nothing is kept.
  absl::StatusOr<KeptUpload> Find(absl::string_view key) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the announced bytes of all uploads by tenant, open and kept ones
  // together, without those of the keys `except`.
  std::map<std::string, uint64_t> BytesByTenant(const UploadKeys& except) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Deletes what no stream writes and has expired at `now`.
  SweepResult Sweep(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the bytes that no stream writes, without those of the keys
  // `except`.
  uint64_t IdleBytes(const UploadKeys& except) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Deletes the upload that no stream writes with the oldest last byte, but not
  // one with a key in `except`. Returns false if there is none.
  bool DropOldest(const UploadKeys& except) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Writer;
  struct Entry {
    std::string sha256;
    std::string tenant;
    uint64_t total_bytes = 0;
    uint64_t bytes = 0;
    absl::Time written;   // time of the last bytes
    uint64_t stream = 0;  // number of the stream that writes; 0: none
    bool held = false;    // the stream writes now, or stores the whole file
  };
  using Entries = std::map<std::string, Entry>;

  PartialBlobs(const std::string& blobs, const PartialOptions& options);
  std::string PathOf(absl::string_view key) const;
  std::string SidecarOf(absl::string_view key) const;

  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);
  void LoadOne(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveFiles(absl::string_view key) const;
  bool InUse(const Entry& entry) const;
  Entries::iterator Oldest(const UploadKeys& except)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ResourceExhausted if open streams leave no room for a new upload.
  absl::Status CheckLimits(const PartialUpload& upload) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Deletes kept uploads until a new one is within the limits.
  void DropUntilFits(const PartialUpload& upload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the errors of Begin for an offset above 0. `entry` is what is kept
  // under the key, or null.
  absl::Status CheckResumable(const PartialUpload& upload,
                              const Entry* entry) const;
  absl::StatusOr<Entries::iterator> Add(const PartialUpload& upload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the file, cut off at the offset.
  absl::StatusOr<BlobFile> OpenAt(const PartialUpload& upload) const;

  // Notes that a stream has `bytes`, and ends a Hold. Aborted if the upload is
  // not its own any more.
  absl::Status Advance(const std::string& key, uint64_t stream, uint64_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps other streams from the upload until Advance or Release, however long
  // the disk takes. Aborted as from Advance.
  absl::Status Hold(const std::string& key, uint64_t stream)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a stream's hold of the upload, which stays as it is or is deleted.
  void Release(const std::string& key, uint64_t stream, bool keep)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string blobs_;
  const std::string folder_;
  const std::string boot_id_;
  const PartialOptions options_;
  mutable absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_stream_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpupool::server
