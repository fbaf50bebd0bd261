// A model of texts as a ModelSource: it has a plan, and no graph for a device.
//
// Thread-safety: immutable.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::onnx_import {

class OnnxFile;

// Makes the source of a file with texts. Errors as PlanTexts.
absl::StatusOr<std::shared_ptr<const ModelSource>> MakeTextSource(
    const v1::OnnxModel& model, const OnnxFile& file);

}  // namespace gpupool::engine::onnx_import
