// Reads a stored dataset (layout and blobs) into a Table. Reads files; safe to
// call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/table.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {

// Reads every row of the files, which are blobs in `blob_dir` named by their
// digests. A table that is larger than limits.memory_bytes is mapped.
//   INVALID_ARGUMENT    the layout and the files disagree, or a file is wrong;
//                       names the file as the user called it, line and column
//   NOT_FOUND           a blob is missing
//   DATA_LOSS           a blob's bytes do not match its digest
//   RESOURCE_EXHAUSTED  the unpacked table would exceed `limits`, or the disk
//                       is full
absl::StatusOr<Table> ReadDataset(const v1::DatasetLayout& layout,
                                  const std::vector<v1::DatasetFile>& files,
                                  const std::string& blob_dir,
                                  const ReadLimits& limits);

// Returns the bytes of host memory that ReadDataset takes for the dataset,
// which has been read once. Reads the headers of arrays only. Errors as
// ReadDataset, but digests are not checked.
absl::StatusOr<uint64_t> HostDataBytes(const v1::Dataset& dataset,
                                       const std::string& blob_dir,
                                       const ReadLimits& limits);

}  // namespace gpupool::engine
