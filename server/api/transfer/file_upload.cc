#include "server/api/transfer/file_upload.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/upload_part_check.h"

namespace gpupool::server {

bool IsFinalAnswer(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

PartialUpload PartialUploadOf(const std::string& sha256, uint64_t total_bytes,
                              const v1::UploadPart& part,
                              const std::string& tenant) {
  return {.key = part.upload_key(),
          .sha256 = sha256,
          .total_bytes = total_bytes,
          .offset = part.offset(),
          .tenant = tenant};
}

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
  RETURN_IF_ERROR(CheckUploadPart("header.part", file.part, file.bytes));
  v1::UploadPart kept = file.part;
  kept.set_upload_key(TenantUploadKey(file.tenant, kept.upload_key()));
  const uint64_t missing = file.bytes - kept.offset();
  ASSIGN_OR_RETURN(const uint64_t free_bytes,
                   blobs.MakeRoom(missing, {kept.upload_key()}));
  if (missing > free_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the file has ", missing, " bytes to send, the server's disk has ",
        free_bytes, " left"));
  }
  ASSIGN_OR_RETURN(
      auto writer,
      blobs.Begin(PartialUploadOf(file.sha256, file.bytes, kept, file.tenant)));
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
