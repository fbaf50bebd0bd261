// The integer types of model files in which the engine does not compute. Plain
// values. Their facts are the rows of engine/base/widened_types.inc.
#pragma once

#include <cstdint>

#include "engine/tensor/dtype_enum.h"

namespace gpupool::engine {

enum class WidenedType : uint8_t {
#define GPUPOOL_WIDENED_TYPE(type, ...) type,
#include "engine/base/widened_types.inc"
};

// Returns the type that holds the numbers of `type`.
constexpr DType HeldAs(WidenedType type) {
  switch (type) {
#define GPUPOOL_WIDENED_TYPE(type, message, number, dtype, ...) \
  case WidenedType::type:                                       \
    return DType::dtype;
#include "engine/base/widened_types.inc"
  }
  return DType::kInt64;
}

}  // namespace gpupool::engine
