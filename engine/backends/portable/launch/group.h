// The lanes that work on one row together. (Host and device; plain C++.)
//
// A functor of LaunchRows is a template over its group. So it runs with one
// lane on the host and with the threads of a block on a GPU. The GPU's group is
// in the CUDA module and has the same members.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"

namespace gpupool::engine::portable {

struct SingleLane {
  GPUPOOL_HOST_DEVICE int lane() const { return 0; }
  GPUPOOL_HOST_DEVICE int lanes() const { return 1; }
  // Return the sum or maximum over the values of all lanes, to every lane. The
  // order of a sum depends only on the number of lanes.
  template <typename T>
  GPUPOOL_HOST_DEVICE T Sum(T value) const {
    return value;
  }
  template <typename T>
  GPUPOOL_HOST_DEVICE T Max(T value) const {
    return value;
  }
  // Do the same over the lanes whose number modulo `columns` is equal.
  // `columns` is a power of two and at most lanes(). Lane c < columns gets the
  // result of column c.
  template <typename T>
  GPUPOOL_HOST_DEVICE T SumOfColumn(T value, int /*columns*/) const {
    return value;
  }
  template <typename T>
  GPUPOOL_HOST_DEVICE T MaxOfColumn(T value, int /*columns*/) const {
    return value;
  }
  // Makes memory that one lane wrote visible to all lanes.
  GPUPOOL_HOST_DEVICE void Meet() const {}
};

}  // namespace gpupool::engine::portable
