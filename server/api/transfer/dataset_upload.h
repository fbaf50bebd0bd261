// Private to server/api: what an UploadDataset stream means, without gRPC. A
// header, then chunks in the order of the header's files; at the end every
// file is whole and has the digest that was announced.
//
// Used by one thread at a time. Dropping it before Finish leaves no file.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/dataset.pb.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class DatasetUpload {
 public:
  // `blobs` outlives the upload.
  DatasetUpload(const BlobStore* blobs, uint64_t limit_bytes)
      : blobs_(blobs), limit_bytes_(limit_bytes) {}

  // The stream's next message. InvalidArgument for what dataset.proto does
  // not allow; ResourceExhausted for a dataset beyond the limit or the disk.
  absl::Status Take(const v1::UploadDatasetRequest& message);

  // True once the header was taken.
  bool has_header() const { return has_header_; }
  const v1::UploadDatasetRequest::Header& header() const { return header_; }

  // The stream is complete: stores the files, and answers the dataset as far
  // as it is known here (name, layout, files).
  absl::StatusOr<v1::Dataset> Finish();

 private:
  absl::Status TakeHeader(const v1::UploadDatasetRequest::Header& header);
  absl::Status TakeChunk(const v1::UploadDatasetRequest::Chunk& chunk);
  absl::Status CheckDisk() const;
  // Names the file in a writer's error.
  absl::Status InFile(int index, const absl::Status& status) const;

  const BlobStore* const blobs_;
  const uint64_t limit_bytes_;
  bool has_header_ = false;
  int file_index_ = 0;
  v1::UploadDatasetRequest::Header header_;
  std::vector<std::unique_ptr<BlobWriter>> writers_;  // one for each file
};

}  // namespace gpupool::server
