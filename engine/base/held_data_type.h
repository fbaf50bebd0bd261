// The types in which slots and programs hold tensors of gpupool.v1.DataType.
// Pure functions.
#pragma once

#include <cstdint>

namespace gpupool::engine {

// Returns the gpupool.v1.DataType that holds the numbers of `data_type`: a
// wider one for the types of widened_types.inc, `data_type` itself for all
// others, also for unknown ones.
constexpr uint32_t HeldDataType(uint32_t data_type) {
  // The numbers of the messages: both tables are in their order.
  enum Number : uint32_t {
    kUnspecified,
#define GPUPOOL_DTYPE(dtype, ...) dtype,
#include "engine/base/dtype_table.inc"
#define GPUPOOL_WIDENED_TYPE(type, ...) type,
#include "engine/base/widened_types.inc"
  };
  switch (data_type) {
#define GPUPOOL_WIDENED_TYPE(type, message, number, dtype, ...) \
  case type:                                                    \
    return dtype;
#include "engine/base/widened_types.inc"
    default:
      return data_type;
  }
}

}  // namespace gpupool::engine
