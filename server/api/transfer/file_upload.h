// Private to server/api: one file that arrives in chunks. It becomes a blob
// when it is complete and has the announced digest.
//
// Used by one thread at a time. Destroying it before Finish leaves no file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class FileUpload {
 public:
  struct Announced {
    std::string sha256;
    uint64_t bytes = 0;  // 1 .. limit
  };

  // Begins an upload. InvalidArgument when the announcement cannot be a file;
  // ResourceExhausted beyond the limit or the disk. `blobs` must outlive the
  // upload.
  static absl::StatusOr<FileUpload> Begin(const BlobStore& blobs,
                                          const Announced& file,
                                          uint64_t limit_bytes);

  // Appends 1 .. kMaxChunkBytes bytes.
  absl::Status Append(absl::string_view chunk);
  // Stores the file. InvalidArgument when bytes are missing or the digest
  // differs.
  absl::Status Finish() { return writer_->Commit(); }

 private:
  explicit FileUpload(std::unique_ptr<BlobWriter> writer)
      : writer_(std::move(writer)) {}

  std::unique_ptr<BlobWriter> writer_;
};

}  // namespace gpupool::server
