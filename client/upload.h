// Uploads datasets: first digests and sizes, then the bytes in chunks.
//
// Thread-safety: the functions may be called from any thread. One upload uses
// one thread and holds at most one chunk in memory.
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
  // Table (CSV, NPZ), features (IDX, NPY), an archive of images, or a folder
  // CLASS/NAME.jpg of them, which is sent as one archive.
  std::string file;
  std::string labels_file;  // IDX, NPY; else empty
  // Further archives of images or recordings, or further files of text.
  std::vector<std::string> more_files;
  std::string tokenizer_file;  // a SentencePiece model for text; else empty
};

// Receives the sent bytes and all bytes, after each chunk. Bytes that the
// server had from an earlier upload count as sent.
using UploadProgress = std::function<void(uint64_t sent, uint64_t total)>;

// Returns role, base name, size and SHA-256 of each file of `upload`, in the
// form that the server expects. NotFound if a file does not exist,
// InvalidArgument if one is empty, and as ListImages for a folder.
absl::StatusOr<std::vector<v1::DatasetFile>> DescribeFiles(
    const DatasetUpload& upload);

// Stores a dataset. Before it reads long files it asks the server for the limit
// of datasets: ResourceExhausted if they are larger. Retries while the server
// is unavailable. Files of at least 4 MiB go on where the bytes on the server
// end, also when an earlier call broke (resumable_upload.h). Smaller ones are
// sent again, which is harmless: the same bytes under the same name change
// nothing. AlreadyExists if the name is taken by other content. DataLoss if a
// file changed meanwhile.
absl::StatusOr<v1::Dataset> UploadDataset(Client& client,
                                          const DatasetUpload& upload,
                                          const UploadProgress& progress);

struct EnsuredDataset {
  v1::Dataset dataset;
  bool uploaded = false;  // false: the server had it already
};

// Uploads the dataset if none has its name. Returns the existing one if it has
// the same bytes. AlreadyExists if the bytes differ.
absl::StatusOr<EnsuredDataset> EnsureDataset(Client& client,
                                             const DatasetUpload& upload,
                                             const UploadProgress& progress);

}  // namespace gpupool::client
