// Reads tensors as ONNX stores them: the type, checked against the data, and
// the elements. Pure except for reads of external files. Usable from any
// thread.
//
// Types that the engine lacks are widened: uint16 and int16 to int32, uint32
// and uint64 to int64 (engine/base/widened_types.inc), and those of
// narrow_types.h as described there. Strings and complex numbers are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/ops.h"
#include "engine/import/onnx/file/external_files.h"
#include "engine/import/onnx/file/host_tensor.h"
#include "engine/tensor/widened_type.h"

namespace onnx {
class TensorProto;
}

namespace gpupool::engine::onnx_import {

// Returns the element type for a TensorProto.DataType. UNIMPLEMENTED with the
// type's name when there is none.
absl::StatusOr<DType> DTypeFromOnnx(int data_type);
// Returns whether DTypeFromOnnx widens the type.
bool IsWidened(int data_type);
// Returns the integer type of 16 to 64 bits that is held in a wider one;
// nothing for all other types.
std::optional<WidenedType> WidenedFromOnnx(int data_type);
// Returns whether the type is a floating type that the engine has, of 16 bits
// or more.
bool IsFloatingType(int data_type);
// Returns the TensorProto.DataType of an element type.
int OnnxType(DType dtype);
// Returns the type's name, as "STRING".
absl::string_view OnnxTypeName(int data_type);

// Returns type and shape. Allocates nothing. UNIMPLEMENTED as DTypeFromOnnx.
// INVALID_ARGUMENT when a size is negative, there are too many elements, or the
// data has another length. Errors begin with the tensor's name.
absl::StatusOr<TensorType> DescribeTensor(const onnx::TensorProto& tensor,
                                          const ExternalFiles& external);

// Copies the elements in the type of DescribeTensor, which must have accepted
// `tensor`. `to` must have the size of the elements in bytes.
absl::Status CopyTensor(const onnx::TensorProto& tensor,
                        const ExternalFiles& external,
                        absl::Span<std::byte> to);

// Returns the elements as numbers. Fails as DescribeTensor does.
absl::StatusOr<HostTensor> ReadTensor(const onnx::TensorProto& tensor,
                                      const ExternalFiles& external);

}  // namespace gpupool::engine::onnx_import
