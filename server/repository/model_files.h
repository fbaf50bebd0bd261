// The files of one version on their way from a model repository to the blob
// store.
//
// Thread-safety: any thread; each call works alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"
#include "server/repository/confined_folder.h"
#include "server/repository/folder_scan.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

struct VersionFiles {
  const ConfinedFolder* root = nullptr;
  std::string folder;  // "NAME/VERSION", in the root
  const VersionFolder* version = nullptr;
  uint64_t limit_bytes = 0;  // of one file
  // Ends reading with Cancelled when it is true.
  const std::atomic<bool>* stop = nullptr;
};

// Returns the spec of the version's model.onnx, with the digests and sizes of
// all its files. Errors:
//   InvalidArgument   a file is above the limit; nothing was read
//   Aborted           a file was written meanwhile
absl::StatusOr<v1::ModelSpec> SpecOfFiles(const VersionFiles& files);

// Stores the files of the spec, which SpecOfFiles has returned, as blobs.
absl::Status StoreFiles(const VersionFiles& files, const v1::ModelSpec& spec,
                        const BlobStore& blobs);

}  // namespace gpupool::server
