#include "server/api/transfer/file_upload.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"

namespace gpupool::server {

absl::StatusOr<FileUpload> FileUpload::Begin(const BlobStore& blobs,
                                             const Announced& file,
                                             uint64_t limit_bytes) {
  if (!engine::IsSha256Hex(file.sha256)) {
    return absl::InvalidArgumentError(
        absl::StrCat("header.sha256 is ", Quoted(file.sha256),
                     "; it must be 64 lower-case hex digits"));
  }
  if (file.bytes == 0) {
    return absl::InvalidArgumentError("header.total_bytes is 0: no file");
  }
  if (file.bytes > limit_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the file has ", file.bytes, " bytes, this server takes at most ",
        limit_bytes, "; start gpupoold with a larger --model-limit"));
  }
  ASSIGN_OR_RETURN(const uint64_t free_bytes, blobs.FreeBytes());
  if (file.bytes > free_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the file has ", file.bytes,
                     " bytes, the server's disk has ", free_bytes, " left"));
  }
  ASSIGN_OR_RETURN(auto writer, blobs.Create(file.sha256, file.bytes));
  return FileUpload(std::move(writer));
}

absl::Status FileUpload::Append(absl::string_view chunk) {
  if (chunk.empty() || chunk.size() > kMaxChunkBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk has ", chunk.size(),
                                                   " bytes; it must have 1 .. ",
                                                   kMaxChunkBytes));
  }
  return writer_->Append(chunk);
}

}  // namespace gpupool::server
