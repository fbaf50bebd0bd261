// Tensors as ONNX stores them: their type, checked against the data that is
// there, and their elements. Pure but for reads of external files; usable
// from any thread.
//
// Types that the engine does not have are widened: uint16 and int16 to int32,
// uint32 and uint64 to int64. Strings and complex numbers are refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/ops.h"
#include "engine/import/onnx/file/external_files.h"
#include "engine/import/onnx/file/host_tensor.h"

namespace onnx {
class TensorProto;
}

namespace gpupool::engine::onnx_import {

// The element type that stands for a TensorProto.DataType. Unimplemented,
// with the type's name, when there is none.
absl::StatusOr<DType> DTypeFromOnnx(int data_type);
// Whether DTypeFromOnnx widens it.
bool IsWidened(int data_type);
// The TensorProto.DataType of an element type.
int OnnxType(DType dtype);
// "STRING"
absl::string_view OnnxTypeName(int data_type);

// Type and shape. Unimplemented as DTypeFromOnnx; InvalidArgument when a size
// is negative, the number of elements overflows a limit, or the data have
// another length. Errors begin with the tensor's name. Allocates nothing.
absl::StatusOr<TensorType> DescribeTensor(const onnx::TensorProto& tensor,
                                          const ExternalFiles& external);

// Copies the elements in the type of DescribeTensor; `to` has exactly its
// bytes. `tensor` passed DescribeTensor.
absl::Status CopyTensor(const onnx::TensorProto& tensor,
                        const ExternalFiles& external,
                        absl::Span<std::byte> to);

// The elements as numbers; DescribeTensor's errors.
absl::StatusOr<HostTensor> ReadTensor(const onnx::TensorProto& tensor,
                                      const ExternalFiles& external);

}  // namespace gpupool::engine::onnx_import
