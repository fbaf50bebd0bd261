// Checks the options of a dataset's layout that are for CSV files: missing
// cells, text columns and their categories.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::server {

// Returns INVALID_ARGUMENT with the field, its value and the limit. The format
// must be filled in.
absl::Status CheckCsvLayout(const v1::DatasetLayout& layout);

}  // namespace gpupool::server
