#include "server/serving/tensor/data_type.h"

#include "absl/strings/str_cat.h"
#include "engine/base/held_data_type.h"

namespace gpupool::server {
namespace {

struct Row {
  v1::DataType type;
  absl::string_view name;
  uint64_t element_bytes;
};

// The protocol's data types, without those that no model here has. The rows of
// widened types have the names of their messages.
constexpr Row kRows[] = {
    {v1::STRING, "BYTES", 0},
#define GPUPOOL_DTYPE(dtype, message, name, bytes, floating, onnx, \
                      safetensors, protocol)                       \
  {v1::message, protocol, bytes},
#include "engine/base/dtype_table.inc"
#define GPUPOOL_WIDENED_TYPE(type, message, number, ...) \
  {v1::message, #message, sizeof(number)},
#include "engine/base/widened_types.inc"
};

}  // namespace

absl::string_view DataTypeName(v1::DataType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row.name;
  }
  return {};
}

v1::DataType ParseDataType(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

uint64_t ElementBytes(v1::DataType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row.element_bytes;
  }
  return 0;
}

std::string ConfigTypeName(v1::DataType type) {
  return type == v1::STRING ? "TYPE_STRING"
                            : absl::StrCat("TYPE_", DataTypeName(type));
}

v1::DataType HeldType(v1::DataType type) {
  return static_cast<v1::DataType>(
      engine::HeldDataType(static_cast<uint32_t>(type)));
}

}  // namespace gpupool::server
