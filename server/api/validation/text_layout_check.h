// Checks the options of a dataset's layout that are for text, and fills in the
// roles of text files.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::server {

// Returns INVALID_ARGUMENT with the field, its value and the limit. The format
// must be filled in, and the categories must have passed CheckCsvLayout.
absl::Status CheckTextLayout(const v1::DatasetLayout& layout);

// Gives all files the role TABLE, whatever clients send for further files.
void FillTextRoles(v1::UploadDatasetRequest::Header* header);

}  // namespace gpupool::server
