// The element types. This header has names only, so code for GPUs can include
// it; engine/tensor/dtype.h has the functions.
#pragma once

#include <cstdint>

namespace gpupool::engine {

enum class DType : uint8_t {
#define GPUPOOL_DTYPE(dtype, ...) dtype,
#include "engine/base/dtype_table.inc"
};

}  // namespace gpupool::engine
