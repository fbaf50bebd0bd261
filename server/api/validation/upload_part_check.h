// Private to server/api: the form of the parts of an upload, before anything is
// looked up.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/upload.pb.h"

namespace gpupool::server {

// InvalidArgument, with `field` and the value, unless it has the form of a key.
absl::Status CheckUploadKey(absl::string_view field, absl::string_view key);

// InvalidArgument for a malformed key, an offset without a key and an offset
// beyond the file.
absl::Status CheckUploadPart(absl::string_view field,
                             const v1::UploadPart& part, uint64_t total_bytes);

// Checks all parts of a header whose files are checked. There are none, or one
// for each file.
absl::Status CheckUploadParts(const v1::UploadDatasetRequest::Header& header);

}  // namespace gpupool::server
