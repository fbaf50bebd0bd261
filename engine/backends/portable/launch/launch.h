// Runs functors over indices, on the host or on a GPU. (Host and device; plain
// C++.)
//
// Kernel makers call these two templates but do not define them. The program
// that links the makers chooses the machine: launch_host-inl.h defines the
// templates as loops, the CUDA module's launch_cuda-inl.cuh as kernel launches.
// Both instantiate them for the functors that a family's header lists. So the
// arithmetic and the choice of functors are the same on both, and tests on the
// host cover them.
//
// A functor is a trivially copyable struct of numbers and pointers of at most
// kMaxFunctorBytes. It is copied by value. Its call operator is const and
// GPUPOOL_HOST_DEVICE. Pointers are addresses of the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::engine::portable {

inline constexpr size_t kMaxFunctorBytes = 4000;  // kernel parameters: 4 KiB

// Lanes of a group on a GPU.
inline constexpr int kGroupLanes = 128;

// The queue of a launch: a cudaStream_t on a GPU, null on the host.
struct LaunchStream {
  void* handle = nullptr;
};

// An error that functors report instead of a status. It lies in the device's
// memory. The first code that is not 0 stays.
struct DeviceError {
  int32_t code = 0;   // a DeviceErrorCode
  int32_t node = 0;   // position in the graph
  int64_t value = 0;  // the offending number
  int64_t limit = 0;  // its upper bound, exclusive
};
enum DeviceErrorCode : int32_t {
  kNoDeviceError = 0,
  kIndexOutside = 1,  // of a gather or scatter: -limit <= value < limit
  kLabelOutside = 2,  // of a loss: 0 <= value < limit
};

// Calls functor(i) for each 0 <= i < count, in any order and in parallel. Calls
// with different i must not write the same bytes.
template <typename Functor>
void LaunchFor(LaunchStream stream, int64_t count, const Functor& functor);

// Calls functor(group, row) for each 0 <= row < rows. The lanes of a group work
// on one row together: each takes i = group.lane(), + group.lanes(), ... They
// meet in group.Sum and group.Max (group.h). Every lane must reach the same
// meetings in the same order.
template <typename Functor>
void LaunchRows(LaunchStream stream, int64_t rows, const Functor& functor);

}  // namespace gpupool::engine::portable
