// Classifies errors of the CUDA runtime by what they mean for the process. It
// is a table of numbers (driver_types.h of CUDA 13.0). So no CUDA header is
// needed, and the daemon's tests and machines without CUDA can use it.
//
// Errors are asynchronous: an error may surface at any later call. So the class
// depends on the code only, never on the call.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

enum class FaultClass : uint8_t {
  kNone,         // success
  kRecoverable,  // the call failed, but the context is sound
  kOutOfMemory,  // the same; free memory and repeat the call
  kUnavailable,  // no driver, no GPU, or another process holds it
  kSticky,       // the context is lost: the process must end
  kQuarantine,   // the GPU is suspect: nothing is placed there again
};

FaultClass ClassifyFault(int code);

// Returns whether the process must end.
constexpr bool EndsProcess(FaultClass fault) {
  return fault == FaultClass::kSticky || fault == FaultClass::kQuarantine;
}

// Returns OK for code 0. Otherwise returns "<what>: <text> (CUDA error 700,
// <name>)" with
//   RESOURCE_EXHAUSTED   out of memory
//   FAILED_PRECONDITION  no driver or no GPU
//   UNAVAILABLE          sticky: the same work may succeed in a new process
//   DATA_LOSS            the GPU is suspect
//   INTERNAL            everything else
absl::Status FaultStatus(int code, absl::string_view name,
                         absl::string_view text, absl::string_view what);

// Returns DATA_LOSS of class kQuarantine, for a fault that no call reported.
absl::Status SuspectStatus(absl::string_view text);

// Returns the class of a status that one of these functions made, else kNone.
FaultClass FaultOf(const absl::Status& status);

}  // namespace gpupool::engine::cuda
