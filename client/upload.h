// Uploads of datasets: digests and sizes first, then the bytes in chunks.
//
// Thread-safety: the functions may be called from any thread; one upload uses
// one thread. Holds at most one chunk in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::client {

class Client;

struct DatasetUpload {
  std::string name;
  v1::DatasetLayout layout;
  std::string file;         // table (CSV, NPZ), or features (IDX, NPY)
  std::string labels_file;  // IDX, NPY; else empty
};

// Bytes sent of all bytes; called after each chunk.
using UploadProgress = std::function<void(uint64_t sent, uint64_t total)>;

// Role, base name, size and SHA-256 of each file of `upload`, as the server
// wants them. NotFound when a file does not exist, InvalidArgument when one is
// empty.
absl::StatusOr<std::vector<v1::DatasetFile>> DescribeFiles(
    const DatasetUpload& upload);

// Stores a dataset. Repeats the whole upload while the server is unavailable
// (the same bytes under the same name are a no-op). AlreadyExists when the
// name is taken by other content; DataLoss when a file changed meanwhile.
absl::StatusOr<v1::Dataset> UploadDataset(Client& client,
                                          const DatasetUpload& upload,
                                          const UploadProgress& progress);

struct EnsuredDataset {
  v1::Dataset dataset;
  bool uploaded = false;  // false: it was there
};

// Uploads when no dataset has the name. When one has it with the same bytes,
// returns it; AlreadyExists when the bytes differ.
absl::StatusOr<EnsuredDataset> EnsureDataset(Client& client,
                                             const DatasetUpload& upload,
                                             const UploadProgress& progress);

}  // namespace gpupool::client
