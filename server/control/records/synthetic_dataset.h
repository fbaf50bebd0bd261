// Describes the named synthetic datasets, which workers make and nobody stores.
// Pure.
#pragma once

#include "absl/status/statusor.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::server {

// Returns the dataset as if it were stored, without an id, a name or files: its
// rows, features and labels. INVALID_ARGUMENT names the field that is out of
// range.
absl::StatusOr<v1::Dataset> SyntheticDataset(const v1::SyntheticData& data);

}  // namespace gpupool::server
