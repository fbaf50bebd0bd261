// The lanes that work on one row together. (Host and device; plain C++.)
//
// A functor of LaunchRows is a template over its group, so that it runs with
// one lane on the host and with the threads of a block on a GPU (whose group,
// with the same members, is in the CUDA module).
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"

namespace gpupool::engine::portable {

struct SingleLane {
  GPUPOOL_HOST_DEVICE int lane() const { return 0; }
  GPUPOOL_HOST_DEVICE int lanes() const { return 1; }
  // Of the values of all lanes, given to all of them. The order of a sum is
  // fixed for a number of lanes.
  template <typename T>
  GPUPOOL_HOST_DEVICE T Sum(T value) const {
    return value;
  }
  template <typename T>
  GPUPOOL_HOST_DEVICE T Max(T value) const {
    return value;
  }
  // The same of the lanes whose numbers leave the same rest when divided by
  // `columns`, a power of two of at most lanes(): given to those below it.
  template <typename T>
  GPUPOOL_HOST_DEVICE T SumOfColumn(T value, int /*columns*/) const {
    return value;
  }
  template <typename T>
  GPUPOOL_HOST_DEVICE T MaxOfColumn(T value, int /*columns*/) const {
    return value;
  }
  // Memory that one lane wrote is seen by all after this.
  GPUPOOL_HOST_DEVICE void Meet() const {}
};

}  // namespace gpupool::engine::portable
