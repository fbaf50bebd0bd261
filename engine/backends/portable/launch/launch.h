// Runs functors over indices, on the host or on a GPU. (Host and device; plain
// C++.)
//
// Kernel makers call these two templates and never define them. Who links the
// makers chooses the machine: launch_host-inl.h defines them as loops, the
// CUDA module's launch_cuda-inl.cuh as kernel launches, each instantiated for
// the functors that a family's header lists. So the arithmetic and the choice
// of functors are the same code on both, and tests of the host cover them.
//
// A functor is a plain struct of numbers and pointers, copied by value: at
// most kMaxFunctorBytes, trivially copyable, with a const call operator that
// is GPUPOOL_HOST_DEVICE. Pointers are addresses of the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::engine::portable {

inline constexpr size_t kMaxFunctorBytes = 4000;  // kernel parameters: 4 KiB

// Lanes of a group on a GPU.
inline constexpr int kGroupLanes = 128;

// Where a launch is queued: a cudaStream_t on a GPU, null on the host.
struct LaunchStream {
  void* handle = nullptr;
};

// What a functor reports instead of a status; it lies in the device's memory.
// The first code that is not 0 stays.
struct DeviceError {
  int32_t code = 0;   // a DeviceErrorCode
  int32_t node = 0;   // position in the graph
  int64_t value = 0;  // the offending number
  int64_t limit = 0;  // what it had to be below
};
enum DeviceErrorCode : int32_t {
  kNoDeviceError = 0,
  kIndexOutside = 1,  // of a gather or scatter: -limit <= value < limit
  kLabelOutside = 2,  // of a loss: 0 <= value < limit
};

// functor(i) for each 0 <= i < count, in any order and at the same time:
// calls with different i must not write the same bytes.
template <typename Functor>
void LaunchFor(LaunchStream stream, int64_t count, const Functor& functor);

// functor(group, row) for each 0 <= row < rows. The lanes of a group work on
// one row together: each walks over i = group.lane(), + group.lanes(), ... and
// all of them meet in group.Sum and group.Max (group.h). Every lane must reach
// the same meetings in the same order.
template <typename Functor>
void LaunchRows(LaunchStream stream, int64_t rows, const Functor& functor);

}  // namespace gpupool::engine::portable
