#include "server/serving/data_type.h"

namespace gpupool::server {
namespace {

struct Row {
  v1::DataType type;
  absl::string_view name;
  uint64_t element_bytes;
};

// The protocol's data types, without those that no model here has.
constexpr Row kRows[] = {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, floating, onnx, \
                      safetensors, protocol)                       \
  {v1::message, protocol, bytes},
#include "engine/base/dtype_table.inc"
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

}  // namespace gpupool::server
