// Element types of tensors. Plain values. Their facts are the rows of
// engine/base/dtype_table.inc.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "engine/tensor/dtype_enum.h"

namespace gpupool::engine {

// Returns the bytes of one element.
constexpr uint64_t SizeOf(DType dtype) {
  switch (dtype) {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, ...) \
  case DType::dtype:                                    \
    return bytes;
#include "engine/base/dtype_table.inc"
  }
  return 0;
}

constexpr bool IsFloating(DType dtype) {
  switch (dtype) {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, floating, ...) \
  case DType::dtype:                                              \
    return floating;
#include "engine/base/dtype_table.inc"
  }
  return false;
}

// Returns "float32", "int64", ...
constexpr absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
#define GPUPOOL_DTYPE(dtype, message, name, ...) \
  case DType::dtype:                             \
    return name;
#include "engine/base/dtype_table.inc"
  }
  return "unknown";
}

}  // namespace gpupool::engine
