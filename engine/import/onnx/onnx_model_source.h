// An ONNX file of the blob store as a ModelSource. Owns the parsed file.
//
// Thread-safety: immutable.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"

namespace gpupool::v1 {
class OnnxModel;
}  // namespace gpupool::v1

namespace gpupool::engine::onnx_import {

class OnnxFile;

// Opens a blob. Fails as ModelSource::Open does.
absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnxModel(
    const v1::OnnxModel& model, const std::string& blob_dir);

// Opens the file at `path`, which is no blob, with external data beneath its
// folder. Reads only the dimensions and unbatched inputs of `model`. NOT_FOUND
// without the file.
absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnxFile(
    const v1::OnnxModel& model, const std::string& path);

// Makes a source of a file that is open. UNIMPLEMENTED lists operators that are
// not supported; INVALID_ARGUMENT names a wrong option of `model`. Names that
// the file does not have are left to ModelSource::CheckNames.
absl::StatusOr<std::shared_ptr<const ModelSource>> MakeOnnxSource(
    const v1::OnnxModel& model, std::shared_ptr<const OnnxFile> file);

}  // namespace gpupool::engine::onnx_import
