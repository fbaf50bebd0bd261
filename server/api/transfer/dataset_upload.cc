#include "server/api/transfer/dataset_upload.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/transfer/file_upload.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/unread_table.h"
#include "server/api/validation/upload_part_check.h"

namespace gpupool::server {

absl::Status DatasetUpload::Take(const v1::UploadDatasetRequest& message) {
  switch (message.payload_case()) {
    case v1::UploadDatasetRequest::kHeader:
      return TakeHeader(message.header());
    case v1::UploadDatasetRequest::kChunk:
      return TakeChunk(message.chunk());
    case v1::UploadDatasetRequest::PAYLOAD_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "a message of the upload has neither header nor chunk");
}

absl::Status DatasetUpload::TakeHeader(
    const v1::UploadDatasetRequest::Header& header) {
  if (has_header_) {
    return absl::InvalidArgumentError(
        "the header came twice; only the first message carries it");
  }
  header_ = header;
  RETURN_IF_ERROR(CheckUploadHeader(&header_, limit_bytes_));
  RETURN_IF_ERROR(CheckUploadParts(header_));
  RETURN_IF_ERROR(CheckDisk());
  for (int i = 0; i < header_.files_size(); ++i) {
    const v1::DatasetFile& file = header_.files(i);
    auto writer = blobs_->Begin(
        PartialUploadOf(file.sha256(), file.total_bytes(), PartOf(i), tenant_));
    RETURN_IF_ERROR(InFile(i, writer.status()));
    writers_.push_back(*std::move(writer));
  }
  has_header_ = true;
  return absl::OkStatus();
}

v1::UploadPart DatasetUpload::PartOf(int index) const {
  if (header_.parts().empty()) return {};
  v1::UploadPart part = header_.parts(index);
  part.set_upload_key(TenantUploadKey(tenant_, part.upload_key()));
  return part;
}

// Checks the sum of the files; each writer checks only its own size.
absl::Status DatasetUpload::CheckDisk() const {
  uint64_t total_bytes = 0;
  UploadKeys keys;
  for (int i = 0; i < header_.files_size(); ++i) {
    total_bytes += header_.files(i).total_bytes() - PartOf(i).offset();
    keys.push_back(PartOf(i).upload_key());
  }
  ASSIGN_OR_RETURN(const uint64_t free_bytes,
                   blobs_->MakeRoom(total_bytes, keys));
  if (total_bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the dataset has ", total_bytes, " bytes to send, the server's disk has ",
      free_bytes, " left"));
}

// Appends the chunk to its file. Chunks of a file must not follow those of a
// later one, so that at most one file is being written.
absl::Status DatasetUpload::TakeChunk(
    const v1::UploadDatasetRequest::Chunk& chunk) {
  if (!has_header_) {
    return absl::InvalidArgumentError(
        "a chunk came first; the first message must carry the header");
  }
  if (chunk.data().empty() || chunk.data().size() > kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk has ", chunk.data().size(),
                     " bytes; it must have 1 .. ", kMaxChunkBytes));
  }
  const auto files = static_cast<uint32_t>(header_.files_size());
  if (chunk.file_index() >= files ||
      chunk.file_index() < static_cast<uint32_t>(file_index_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a chunk for file ", chunk.file_index(), " came after one for file ",
        file_index_, "; there are ", files, " files, sent in their order"));
  }
  file_index_ = static_cast<int>(chunk.file_index());
  if (begun_files_ <= file_index_) {
    begun_files_ = file_index_ + 1;
    // A part that goes on was checked when the file began.
    if (PartOf(file_index_).offset() == 0) {
      RETURN_IF_ERROR(CheckTableBytes(header_.files(file_index_).file_name(),
                                      chunk.data()));
    }
  }
  return InFile(file_index_, writers_[file_index_]->Append(chunk.data()));
}

absl::Status DatasetUpload::InFile(int index,
                                   const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("file ", Quoted(header_.files(index).file_name()), ": ",
                   std::string(status.message())));
}

void DatasetUpload::ForgetAfter(const absl::Status& answer) {
  if (!IsFinalAnswer(answer)) return;
  for (const auto& writer : writers_) writer->Forget();
}

absl::StatusOr<v1::Dataset> DatasetUpload::Finish() {
  if (!has_header_) {
    return absl::InvalidArgumentError(
        "the stream ended before its header came");
  }
  for (int i = 0; i < header_.files_size(); ++i) {
    RETURN_IF_ERROR(InFile(i, writers_[i]->Commit()));
  }
  v1::Dataset dataset;
  dataset.set_name(header_.name());
  dataset.set_tenant(tenant_);
  *dataset.mutable_layout() = header_.layout();
  *dataset.mutable_files() = header_.files();
  return dataset;
}

}  // namespace gpupool::server
