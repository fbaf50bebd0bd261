// Private to server/store and its users: what the writers of blobs have in
// common. blob_store.h makes them.
//
// Thread-safety: one caller at a time for each object.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

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
  // Gives up what is kept of the bytes for a client that uploads again. Call it
  // when the upload has its final answer. No-op for a writer that keeps
  // nothing.
  virtual void Forget() {}
};

struct SweepResult {
  uint64_t removed_files = 0;
  uint64_t removed_bytes = 0;
};

}  // namespace gpupool::server
