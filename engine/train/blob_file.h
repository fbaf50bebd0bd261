// Writes and reads files named by the SHA-256 of their bytes. A blob appears
// under its name whole and on stable storage or not at all: temporary file,
// fsync, rename, fsync of the folder. Safe to use from several processes on
// one folder.
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

// Stores the parts, one behind the other. When the blob is already there only
// its time of change is renewed, so that a sweep of old blobs spares it.
// ResourceExhausted when the disk is full; Internal for other errors.
absl::StatusOr<WrittenBlob> WriteBlob(
    const std::string& blob_dir, absl::Span<const absl::string_view> parts);

// NotFound when it is missing, DataLoss when its bytes are not those of its
// name, InvalidArgument when `sha256` is no digest.
absl::StatusOr<MappedFile> ReadBlob(const std::string& blob_dir,
                                    const std::string& sha256);

}  // namespace gpupool::engine
