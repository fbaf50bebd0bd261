#include "server/serving/data_type.h"

namespace gpupool::server {
namespace {

struct Row {
  v1::DataType type;
  absl::string_view name;
  uint64_t element_bytes;
};

// The protocol's table of data types, without those that no model here has.
constexpr Row kRows[] = {
    {v1::FLOAT32, "FP32", 4},  {v1::FLOAT64, "FP64", 8},
    {v1::INT32, "INT32", 4},   {v1::INT64, "INT64", 8},
    {v1::UINT8, "UINT8", 1},   {v1::BOOL, "BOOL", 1},
    {v1::INT8, "INT8", 1},     {v1::FLOAT16, "FP16", 2},
    {v1::BFLOAT16, "BF16", 2},
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
