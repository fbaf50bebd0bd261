// The reports that wait on disk in the spools of workers, whether these run or
// not.
//
// Thread-safety: any thread, also while workers write their spools.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {

// Returns all reports except progress that the spools below
// `state_dir`/workers hold. A report that is not among them was acknowledged,
// or is not written yet. Unavailable, naming the file, when a spool cannot be
// read.
absl::StatusOr<std::vector<worker::v1::Report>> ReadSpooledReports(
    const std::string& state_dir);

}  // namespace gpupool::server
