// Opens the files of models, which are blobs with their digest as name. Pure
// except for reading.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/mapped_file.h"

namespace gpupool::engine {

// Maps a blob after checking that its bytes have the digest in its name. `what`
// describes it in errors, as "ONNX model". With `bytes` 0 any size will do.
//   INVALID_ARGUMENT  the digest has no such form, or the size differs
//   NOT_FOUND         it is not stored
//   DATA_LOSS         its bytes have another digest
absl::StatusOr<MappedFile> OpenModelBlob(const std::string& blob_dir,
                                         const std::string& sha256,
                                         uint64_t bytes,
                                         absl::string_view what);

}  // namespace gpupool::engine
