// Lists versions, and says how loads ended, for the doors beside the project's
// own API: the inference protocol's repository, and folders of models.
//
// Thread-safety: any thread; the store locks by itself.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

class Store;

// Returns all versions, those of a model together and by rising number. Reads
// all pages. Errors are the store's.
absl::StatusOr<std::vector<v1::ModelVersion>> StoredVersions(
    const Store& store);

// Returns how a load with `wait` ended, from its answer: OK when the version is
// READY, else why it is not. UNAVAILABLE when it failed or was unloaded.
absl::Status LoadOutcome(const absl::StatusOr<v1::ModelVersion>& version);

}  // namespace gpupool::server
