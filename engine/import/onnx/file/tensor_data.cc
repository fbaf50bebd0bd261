#include "engine/import/onnx/file/tensor_data.h"

#include <onnx/onnx_pb.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/narrow_types.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::TensorProto;

std::string Name(const TensorProto& tensor) {
  return absl::StrCat("tensor '", tensor.name(), "'");
}

template <typename... Parts>
absl::Status Refuse(const TensorProto& tensor, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(Name(tensor), ": ", parts...));
}

// Returns the bytes of some elements in raw_data and in external files.
uint64_t StoredBytes(int data_type, uint64_t elements) {
  if (const NarrowType* narrow = FindNarrowType(data_type)) {
    return narrow->stored_bytes(elements);
  }
  switch (data_type) {
#define GPUPOOL_WIDENED_TYPE(type, message, number, ...) \
  case TensorProto::message:                             \
    return sizeof(number) * elements;
#include "engine/base/widened_types.inc"
    default:
      return SizeOf(*DTypeFromOnnx(data_type)) * elements;
  }
}

struct ExternalRange {
  std::string location;
  uint64_t offset = 0;
  absl::optional<uint64_t> length;
};

absl::StatusOr<ExternalRange> RangeOf(const TensorProto& tensor) {
  ExternalRange range;
  for (const auto& entry : tensor.external_data()) {
    uint64_t number = 0;
    // Keys but these and "location", such as "checksum", are ignored.
    const bool counts = entry.key() == "offset" || entry.key() == "length";
    // The ONNX format keeps these numbers as texts.
    if (counts && !absl::SimpleAtoi(entry.value(), &number)) {
      return Refuse(tensor, "external ", entry.key(), " '", entry.value(),
                    "' is no number of bytes");
    }
    if (entry.key() == "location") range.location = entry.value();
    if (entry.key() == "offset") range.offset = number;
    if (entry.key() == "length") range.length = number;
  }
  return range;
}

absl::Status CheckExternal(const TensorProto& tensor, uint64_t bytes,
                           const ExternalFiles& external) {
  ASSIGN_OR_RETURN(const ExternalRange range, RangeOf(tensor));
  absl::StatusOr<uint64_t> size = external.Size(range.location);
  if (!size.ok()) return Refuse(tensor, size.status().message());
  if (range.length.has_value() && *range.length != bytes) {
    if (range.location == kModelLocation) {
      return Refuse(tensor, "has ", *range.length,
                    " bytes of data; its shape takes ", bytes);
    }
    return Refuse(tensor, "takes ", bytes, " bytes, but its external data has ",
                  *range.length);
  }
  // The subtraction avoids an overflow.
  if (range.offset > *size || bytes > *size - range.offset) {
    return Refuse(tensor, "bytes ", range.offset, " to ", range.offset, " + ",
                  bytes, " of '", range.location, "', which has ", *size);
  }
  return absl::OkStatus();
}

// Returns the number of entries in the typed field of this data type.
int64_t TypedCount(const TensorProto& tensor) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return tensor.float_data_size();
    case TensorProto::DOUBLE:
      return tensor.double_data_size();
    case TensorProto::INT64:
      return tensor.int64_data_size();
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return tensor.uint64_data_size();
    default:
      return tensor.int32_data_size();
  }
}

absl::Status CheckData(const TensorProto& tensor, int64_t elements,
                       const ExternalFiles& external) {
  if (tensor.has_segment()) return Refuse(tensor, "segments are not supported");
  const uint64_t bytes =
      StoredBytes(tensor.data_type(), static_cast<uint64_t>(elements));
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    return CheckExternal(tensor, bytes, external);
  }
  if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() == bytes) return absl::OkStatus();
    return Refuse(tensor, "has ", tensor.raw_data().size(),
                  " bytes of data; its shape takes ", bytes);
  }
  // Entries of narrow types hold a byte each, with one or several elements.
  const bool narrow = FindNarrowType(tensor.data_type()) != nullptr;
  const int64_t entries = narrow ? static_cast<int64_t>(bytes) : elements;
  if (TypedCount(tensor) == entries) return absl::OkStatus();
  return Refuse(tensor, "has ", TypedCount(tensor),
                " numbers; its shape takes ", entries);
}

// Converts elements from raw_data to the engine's type. Copying allows for any
// alignment.
template <typename From, typename To>
void Widen(absl::Span<const std::byte> from, absl::Span<std::byte> to) {
  for (size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From x;
    std::memcpy(&x, from.data() + i * sizeof(From), sizeof(From));
    const To y = static_cast<To>(x);
    std::memcpy(to.data() + i * sizeof(To), &y, sizeof(To));
  }
}

void CopyRaw(int data_type, absl::Span<const std::byte> from,
             absl::Span<std::byte> to) {
  if (const NarrowType* narrow = FindNarrowType(data_type)) {
    return CopyNarrow(*narrow, from, to);
  }
  switch (data_type) {
#define GPUPOOL_WIDENED_TYPE(type, message, number, dtype, held) \
  case TensorProto::message:                                     \
    return Widen<number, held>(from, to);
#include "engine/base/widened_types.inc"
    case TensorProto::BOOL:  // any byte but 0 is true
      for (size_t i = 0; i < from.size(); ++i) {
        to[i] = from[i] == std::byte{0} ? std::byte{0} : std::byte{1};
      }
      return;
    default:
      if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  }
}

template <typename To, typename Field>
void CopyField(const Field& field, absl::Span<std::byte> to) {
  for (int i = 0; i < field.size(); ++i) {
    const To y = static_cast<To>(field.Get(i));
    std::memcpy(to.data() + static_cast<size_t>(i) * sizeof(To), &y,
                sizeof(To));
  }
}

void CopyTyped(const TensorProto& tensor, absl::Span<std::byte> to) {
  if (const NarrowType* narrow = FindNarrowType(tensor.data_type())) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.int32_data_size()));
    // ONNX keeps packed elements in int32_data, a byte in each number.
    CopyField<uint8_t>(tensor.int32_data(), absl::MakeSpan(bytes));
    return CopyNarrow(*narrow, bytes, to);
  }
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return CopyField<float>(tensor.float_data(), to);
    case TensorProto::DOUBLE:
      return CopyField<double>(tensor.double_data(), to);
    case TensorProto::INT64:
      return CopyField<int64_t>(tensor.int64_data(), to);
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      // uint64_data is the field of both types (onnx.proto).
      return CopyField<int64_t>(tensor.uint64_data(), to);
    case TensorProto::INT32:
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return CopyField<int32_t>(tensor.int32_data(), to);
    case TensorProto::FLOAT16:  // bit patterns
    case TensorProto::BFLOAT16:
      return CopyField<uint16_t>(tensor.int32_data(), to);
    case TensorProto::BOOL:
      return CopyField<bool>(tensor.int32_data(), to);
    default:
      return CopyField<int8_t>(tensor.int32_data(), to);
  }
}

}  // namespace

int OnnxType(DType dtype) {
  switch (dtype) {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, floating, onnx, ...) \
  case DType::dtype:                                                    \
    return TensorProto::onnx;
#include "engine/base/dtype_table.inc"
  }
  return TensorProto::UNDEFINED;
}

absl::string_view OnnxTypeName(int data_type) {
  if (const NarrowType* narrow = FindNarrowType(data_type)) return narrow->name;
  if (!onnx::TensorProto_DataType_IsValid(data_type)) return "unknown";
  return onnx::TensorProto_DataType_Name(
      static_cast<onnx::TensorProto_DataType>(data_type));
}

absl::StatusOr<DType> DTypeFromOnnx(int data_type) {
  if (const NarrowType* narrow = FindNarrowType(data_type)) {
    return narrow->held_as;
  }
  switch (data_type) {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, floating, onnx, ...) \
  case TensorProto::onnx:                                               \
    return DType::dtype;
#include "engine/base/dtype_table.inc"
#define GPUPOOL_WIDENED_TYPE(type, message, number, dtype, ...) \
  case TensorProto::message:                                    \
    return DType::dtype;
#include "engine/base/widened_types.inc"
    default:
      return absl::UnimplementedError(
          absl::StrCat("element type ", OnnxTypeName(data_type), " (",
                       data_type, ") is not supported"));
  }
}

bool IsFloatingType(int data_type) {
  if (FindNarrowType(data_type) != nullptr) return false;
  const absl::StatusOr<DType> dtype = DTypeFromOnnx(data_type);
  return dtype.ok() && IsFloating(*dtype);
}

bool IsWidened(int data_type) {
  return WidenedFromOnnx(data_type).has_value() ||
         FindNarrowType(data_type) != nullptr;
}

std::optional<WidenedType> WidenedFromOnnx(int data_type) {
  switch (data_type) {
#define GPUPOOL_WIDENED_TYPE(type, message, ...) \
  case TensorProto::message:                     \
    return WidenedType::type;
#include "engine/base/widened_types.inc"
    default:
      return std::nullopt;
  }
}

absl::StatusOr<TensorType> DescribeTensor(const TensorProto& tensor,
                                          const ExternalFiles& external) {
  absl::StatusOr<DType> dtype = DTypeFromOnnx(tensor.data_type());
  if (!dtype.ok()) {
    return absl::Status(
        dtype.status().code(),
        absl::StrCat(Name(tensor), ": ", dtype.status().message()));
  }
  absl::StatusOr<Shape> shape = Shape::CreateMaybeEmpty(tensor.dims());
  if (!shape.ok()) return Refuse(tensor, shape.status().message());
  RETURN_IF_ERROR(CheckData(tensor, shape->elements(), external));
  return TensorType{*dtype, *shape};
}

absl::Status CopyTensor(const TensorProto& tensor,
                        const ExternalFiles& external,
                        absl::Span<std::byte> to) {
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    ASSIGN_OR_RETURN(const ExternalRange range, RangeOf(tensor));
    // Only widened types and booleans are stored in another form.
    if (!IsWidened(tensor.data_type()) &&
        tensor.data_type() != TensorProto::BOOL) {
      return external.Read(range.location, range.offset, to);
    }
    const uint64_t elements =
        to.size() / SizeOf(*DTypeFromOnnx(tensor.data_type()));
    std::vector<std::byte> stored(StoredBytes(tensor.data_type(), elements));
    RETURN_IF_ERROR(
        external.Read(range.location, range.offset, absl::MakeSpan(stored)));
    CopyRaw(tensor.data_type(), stored, to);
    return absl::OkStatus();
  }
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    CopyRaw(tensor.data_type(),
            absl::MakeConstSpan(reinterpret_cast<const std::byte*>(raw.data()),
                                raw.size()),
            to);
  } else {
    CopyTyped(tensor, to);
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> ReadTensor(const TensorProto& tensor,
                                      const ExternalFiles& external) {
  ASSIGN_OR_RETURN(const TensorType type, DescribeTensor(tensor, external));
  std::vector<std::byte> bytes(type.shape.bytes(type.dtype));
  RETURN_IF_ERROR(CopyTensor(tensor, external, absl::MakeSpan(bytes)));
  HostTensor host{type.dtype, type.shape, {}};
  host.numbers.resize(static_cast<size_t>(type.shape.elements()));
  ReadAsDoubles(type.dtype, bytes.data(), 1, absl::MakeSpan(host.numbers));
  return host;
}

}  // namespace gpupool::engine::onnx_import
