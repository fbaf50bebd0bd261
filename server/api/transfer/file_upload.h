// Private to server/api: one file that arrives in chunks. It becomes a blob
// when it is complete and has the announced digest.
//
// Used by one thread at a time. Destroying it before Finish leaves no file,
// unless the upload has a key: then the bytes are kept for its client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/upload.pb.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

// Returns whether the same upload would get the same answer if its client sent
// it again. If not, the bytes are worth keeping.
bool IsFinalAnswer(const absl::Status& status);

// Returns the form in which the blob store takes an upload. `part` has the key
// under which it is kept for the tenant.
PartialUpload PartialUploadOf(const std::string& sha256, uint64_t total_bytes,
                              const v1::UploadPart& part,
                              const std::string& tenant);

class FileUpload {
 public:
  struct Announced {
    std::string sha256;
    uint64_t bytes = 0;  // 1 .. limit
    v1::UploadPart part = {};
    std::string tenant = {};  // of the uploader; empty: none
  };

  // Begins an upload. InvalidArgument when the announcement cannot be a file;
  // ResourceExhausted beyond the limit or the disk; errors of upload.proto for
  // a part that cannot go on. `blobs` must outlive the upload.
  static absl::StatusOr<FileUpload> Begin(const BlobStore& blobs,
                                          const Announced& file,
                                          uint64_t limit_bytes);

  // Appends 1 .. kMaxChunkBytes bytes.
  absl::Status Append(absl::string_view chunk);
  // Stores the file. InvalidArgument when bytes are missing or the digest
  // differs, Aborted when it differs and bytes were kept.
  absl::Status Finish() { return writer_->Commit(); }
  // Gives up what is kept of the bytes if `answer` is final.
  void ForgetAfter(const absl::Status& answer) {
    if (IsFinalAnswer(answer)) writer_->Forget();
  }

 private:
  explicit FileUpload(std::unique_ptr<BlobWriter> writer)
      : writer_(std::move(writer)) {}

  std::unique_ptr<BlobWriter> writer_;
};

}  // namespace gpupool::server
