// Checks what is special about uploads of images: the archives' names and
// roles, and the options of the layout that are for images.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::server {

// Returns INVALID_ARGUMENT for an archive that is compressed, by its name.
absl::Status CheckNotPacked(const v1::UploadDatasetRequest::Header& header);

// Returns INVALID_ARGUMENT with the field, its value and the limit. The format
// must be filled in.
absl::Status CheckImageLayout(const v1::DatasetLayout& layout);

// Fills in the role IMAGES of all files, and checks given ones.
absl::Status FillImageRoles(v1::UploadDatasetRequest::Header* header);

}  // namespace gpupool::server
