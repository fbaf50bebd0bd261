// NVIDIA's catalogue of Xid error reports, which the driver gives for a GPU:
// docs.nvidia.com/deploy/xid-errors.
//
// A report is about a GPU, not about a process: one that blames an application
// may be about somebody else's. So only what makes the GPU itself suspect is to
// be acted upon; the process that a fault belongs to gets it as the error of a
// kernel (fault_class.h).
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "engine/backends/cuda/driver/fault_class.h"

namespace gpupool::engine::cuda {

// kQuarantine: the GPU must be reset or the machine started again; kSticky: a
// process has lost its context; kNone: worth a note, or unknown.
FaultClass ClassifyXid(uint32_t code);

// What is known of a code, else "".
absl::string_view XidText(uint32_t code);

// An uncorrectable memory error that the GPU has contained: it ends the
// processes that it hit, and the GPU goes on.
inline constexpr uint32_t kXidContainedError = 94;

}  // namespace gpupool::engine::cuda
