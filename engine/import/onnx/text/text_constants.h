// Tensors of an ONNX file as constants of a TextProgram.
//
// Pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

class ExternalFiles;

// Returns the type of clients. UNIMPLEMENTED for one that models of texts
// cannot have.
absl::StatusOr<v1::DataType> TextDataType(int onnx_type);

// Returns the constant. INVALID_ARGUMENT when its elements are not those of its
// shape; UNIMPLEMENTED as TextDataType.
absl::StatusOr<v1::TextTensor> TextConstant(const onnx::TensorProto& tensor,
                                            const ExternalFiles& external);

}  // namespace gpupool::engine::onnx_import
