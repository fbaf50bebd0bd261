// Private to server/api: the meaning of an UploadDataset stream, without gRPC.
// It is a header, then chunks in the order of the header's files. At the end
// every file must be complete and have the announced digest.
//
// Used by one thread at a time. Destroying it before Finish leaves no file,
// unless files have an upload key: then their bytes are kept for the client.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/dataset.pb.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class DatasetUpload {
 public:
  // `blobs` must outlive the upload. `tenant` is the uploader's; empty: none.
  DatasetUpload(const BlobStore* blobs, uint64_t limit_bytes,
                std::string tenant = {})
      : blobs_(blobs), limit_bytes_(limit_bytes), tenant_(std::move(tenant)) {}

  // Takes the stream's next message. InvalidArgument for a message that
  // dataset.proto does not allow; ResourceExhausted for a dataset beyond the
  // limit or the disk; Aborted for parts that cannot go on.
  absl::Status Take(const v1::UploadDatasetRequest& message);

  // Returns true once the header was taken.
  bool has_header() const { return has_header_; }
  const v1::UploadDatasetRequest::Header& header() const { return header_; }

  // Gives up what is kept of the files if `answer` is final.
  void ForgetAfter(const absl::Status& answer);

  // Stores the files of a complete stream. Returns the dataset as far as it is
  // known here: name, layout, files and tenant.
  absl::StatusOr<v1::Dataset> Finish();

 private:
  absl::Status TakeHeader(const v1::UploadDatasetRequest::Header& header);
  absl::Status TakeChunk(const v1::UploadDatasetRequest::Chunk& chunk);
  absl::Status CheckDisk() const;
  // Returns the part of a file, with the key under which it is kept; an empty
  // one if the header has none.
  v1::UploadPart PartOf(int index) const;
  // Adds the file's name to a writer's error.
  absl::Status InFile(int index, const absl::Status& status) const;

  const BlobStore* const blobs_;
  const uint64_t limit_bytes_;
  const std::string tenant_;
  bool has_header_ = false;
  int file_index_ = 0;
  int begun_files_ = 0;  // those whose first chunk came, or was passed over
  v1::UploadDatasetRequest::Header header_;
  std::vector<std::unique_ptr<BlobWriter>> writers_;  // one for each file
};

}  // namespace gpupool::server
