#include "server/api/validation/upload_part_check.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/store/partial_blobs.h"

namespace gpupool::server {

absl::Status CheckUploadKey(absl::string_view field, absl::string_view key) {
  if (IsUploadKey(key)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", Quoted(key),
                   "; it must be 32 to 64 lower-case hex digits"));
}

absl::Status CheckUploadPart(absl::string_view field,
                             const v1::UploadPart& part, uint64_t total_bytes) {
  if (part.upload_key().empty()) {
    if (part.offset() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".offset is ", part.offset(),
                     " without an upload_key; without one nothing is kept, so "
                     "upload from offset 0"));
  }
  RETURN_IF_ERROR(
      CheckUploadKey(absl::StrCat(field, ".upload_key"), part.upload_key()));
  if (part.offset() <= total_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".offset is ", part.offset(),
      ", beyond the end of the file, which has ", total_bytes, " bytes"));
}

absl::Status CheckUploadParts(const v1::UploadDatasetRequest::Header& header) {
  if (header.parts().empty()) return absl::OkStatus();
  if (header.parts_size() != header.files_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parts has ", header.parts_size(), " entries for ", header.files_size(),
        " files; give none, or one for each file"));
  }
  for (int i = 0; i < header.parts_size(); ++i) {
    RETURN_IF_ERROR(CheckUploadPart(absl::StrCat("parts[", i, "]"),
                                    header.parts(i),
                                    header.files(i).total_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
