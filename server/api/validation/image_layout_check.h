// Checks what is special about uploads of archives: their names and roles, the
// names of their classes, and the options of the layout that are for images.
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

// Returns INVALID_ARGUMENT if layout.categories are no names of classes of the
// column "labels".
absl::Status CheckClassNames(const v1::DatasetLayout& layout);

// Returns whether a dataset of the format is one or more archives.
inline bool HasArchives(v1::DatasetFormat format) {
  return format == v1::IMAGES || format == v1::AUDIO;
}

// Fills in the role of all files, IMAGES or AUDIO, and checks given ones. The
// format must be filled in.
absl::Status FillArchiveRoles(v1::UploadDatasetRequest::Header* header);

}  // namespace gpupool::server
