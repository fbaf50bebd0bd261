// Files named by the SHA-256 of their bytes. A blob appears under its name
// whole and on stable storage, or not at all: temporary file, fsync, rename,
// fsync of the folder. Several processes may use one folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/mapped_file.h"

namespace gpupool::engine {

struct WrittenBlob {
  std::string sha256;
  uint64_t bytes = 0;
};

// Stores the parts, one after the other. If the blob exists, only its time of
// change is renewed, so that a sweep of old blobs spares it. A FullDiskError
// (full_disk.h) when the disk is full; INTERNAL for other errors.
absl::StatusOr<WrittenBlob> WriteBlob(
    const std::string& blob_dir, absl::Span<const absl::string_view> parts);

// Reads a blob. NOT_FOUND when it is missing, DATA_LOSS when its bytes do not
// match its name, INVALID_ARGUMENT when `sha256` is no digest.
absl::StatusOr<MappedFile> ReadBlob(const std::string& blob_dir,
                                    const std::string& sha256);

}  // namespace gpupool::engine
