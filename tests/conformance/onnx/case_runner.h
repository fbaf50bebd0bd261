// Runs a case's model on one back end and compares with what is expected.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/import/layer_spec.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "tests/conformance/onnx/cases.h"

namespace gpupool::engine::onnx_import {

enum class CaseBackend {
  kReference,
  kCpu,
  kPortable,  // the kernels of a GPU, on the host
};

// The case's graph, as in training or in inference. Inputs are bound to their
// numbers only as far as the import asks for them.
absl::StatusOr<ModelGraph> ImportBinding(const OnnxFile& file,
                                         const DataSet& data, bool training);

// Inputs are bound to their numbers only as far as the import asks for them.
// Unimplemented or FailedPrecondition when the model cannot be imported or
// compiled, DataLoss when a number is wrong: floating ones beyond rtol 1e-3
// and atol 1e-7 (the defaults of onnx.backend.test), others at all.
absl::Status RunCase(const Case& test, CaseBackend backend);

}  // namespace gpupool::engine::onnx_import
