// Reports errors in data from functors. (Host and device; plain C++.)
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/launch/launch.h"

namespace gpupool::engine::portable {

// The place to which a node's functors report. `error` may be null: then
// reports are dropped.
struct ErrorPlace {
  DeviceError* error = nullptr;
  int32_t node = 0;
};

GPUPOOL_HOST_DEVICE inline void Report(const ErrorPlace& place,
                                       DeviceErrorCode code, int64_t value,
                                       int64_t limit) {
  if (place.error == nullptr) return;
#ifdef __CUDA_ARCH__
  if (atomicCAS(&place.error->code, 0, static_cast<int32_t>(code)) != 0) {
    return;
  }
#else
  if (place.error->code != 0) return;
  place.error->code = code;
#endif
  place.error->node = place.node;
  place.error->value = value;
  place.error->limit = limit;
}

// Returns an index into `cells` cells as a number from 0. Negative indices
// count from the end. Reports an error and returns -1 when the index lies
// outside.
GPUPOOL_HOST_DEVICE inline int64_t ResolveIndex(const ErrorPlace& place,
                                                int64_t index, int64_t cells) {
  if (index >= -cells && index < cells) {
    return index < 0 ? index + cells : index;
  }
  Report(place, kIndexOutside, index, cells);
  return -1;
}

}  // namespace gpupool::engine::portable
