// NVIDIA's catalogue of Xid error reports, which the driver gives for a GPU:
// docs.nvidia.com/deploy/xid-errors.
//
// A report is about a GPU, not about a process: the application that it blames
// may belong to somebody else. So act only on a report that makes the GPU
// itself suspect. The process that caused a fault gets it as the error of a
// kernel (fault_class.h).
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "engine/backends/cuda/driver/fault_class.h"

namespace gpupool::engine::cuda {

// Returns the class of a code:
//   kQuarantine  the GPU must be reset, or the machine restarted
//   kSticky      a process has lost its context
//   kNone        no action is needed, or the code is unknown
FaultClass ClassifyXid(uint32_t code);

// Returns a description of a code, or "" for an unknown code.
absl::string_view XidText(uint32_t code);

// An uncorrectable memory error that the GPU has contained. It ends the
// processes that used the memory. The GPU goes on.
inline constexpr uint32_t kXidContainedError = 94;

}  // namespace gpupool::engine::cuda
