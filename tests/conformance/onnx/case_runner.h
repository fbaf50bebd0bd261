// Runs a case's model on one back end and compares the results with the
// expected ones.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/model/layer_spec.h"
#include "tests/conformance/onnx/cases.h"

namespace gpupool::engine::onnx_import {

enum class CaseBackend {
  kReference,
  kCpu,
  kPortable,  // the kernels of a GPU, on the host
};

// Returns the case's graph for training or for inference. Inputs are bound to
// their numbers only if the import asks for them.
absl::StatusOr<ModelGraph> ImportBinding(const OnnxFile& file,
                                         const DataSet& data, bool training);

// Runs the case. Inputs are bound to their numbers only if the import asks for
// them.
//   UNIMPLEMENTED, FAILED_PRECONDITION  the model cannot be imported or
//                                       compiled
//   DATA_LOSS  a number is wrong: floating ones beyond rtol 1e-3 and atol 1e-7
//              (the defaults of onnx.backend.test), others if they differ
absl::Status RunCase(const Case& test, CaseBackend backend);

}  // namespace gpupool::engine::onnx_import
