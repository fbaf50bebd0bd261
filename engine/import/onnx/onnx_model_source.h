// An ONNX file of the blob store as a ModelSource. Immutable; usable from any
// thread. Owns the parsed file.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/import/model_source.h"

namespace gpupool::v1 {
class OnnxModel;
}  // namespace gpupool::v1

namespace gpupool::engine::onnx_import {

// Errors as ModelSource::Open.
absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnxModel(
    const v1::OnnxModel& model, const std::string& blob_dir);

// The file at `path`, which is no blob, with external data beneath its folder.
// Of `model` only dimensions and unbatched inputs count. NotFound when there
// is no such file.
absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnxFile(
    const v1::OnnxModel& model, const std::string& path);

}  // namespace gpupool::engine::onnx_import
