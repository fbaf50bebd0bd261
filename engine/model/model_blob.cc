#include "engine/model/model_blob.h"

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

absl::StatusOr<MappedFile> OpenModelBlob(const std::string& blob_dir,
                                         const std::string& sha256,
                                         uint64_t bytes,
                                         absl::string_view what) {
  if (!IsSha256Hex(sha256)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": the sha256 must be 64 lower-case hex digits"));
  }
  absl::StatusOr<MappedFile> file =
      MappedFile::Open(absl::StrCat(blob_dir, "/", sha256));
  if (!file.ok()) {
    if (!absl::IsNotFound(file.status())) return file.status();
    return absl::NotFoundError(
        absl::StrCat(what, " ", sha256, " is not stored; upload it first"));
  }
  if (bytes != 0 && bytes != file->bytes().size()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " ", sha256, " has ",
                                                   file->bytes().size(),
                                                   " bytes, not ", bytes));
  }
  if (Sha256Hex(file->bytes()) != sha256) {
    return absl::DataLossError(
        absl::StrCat(what, " ", sha256, " was damaged where it is stored"));
  }
  return file;
}

}  // namespace gpupool::engine
