// What an error of the CUDA runtime means for the process that got it, as a
// table of numbers (driver_types.h of CUDA 13.0): no CUDA header is needed, so
// the daemon's tests and machines without CUDA can use it.
//
// Errors are asynchronous: one surfaces at whatever call comes next. They are
// therefore told apart by their code, never by the call.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

enum class FaultClass : uint8_t {
  kNone,         // success
  kRecoverable,  // the call failed, the context is sound
  kOutOfMemory,  // the same; memory can be given back and the call repeated
  kUnavailable,  // no driver, no GPU, or one that another process holds
  kSticky,       // the context is lost: the process must end
  kQuarantine,   // the GPU itself is suspect: nothing is placed there again
};

FaultClass ClassifyFault(int code);

// Whether only a new process can go on.
constexpr bool EndsProcess(FaultClass fault) {
  return fault == FaultClass::kSticky || fault == FaultClass::kQuarantine;
}

// OK for code 0. Else "<what>: <text> (CUDA error 700, <name>)" with
//   RESOURCE_EXHAUSTED   out of memory
//   FAILED_PRECONDITION  no driver or no GPU
//   UNAVAILABLE          sticky: the same work may succeed in a new process
//   DATA_LOSS            the GPU is suspect
//   INTERNAL             everything else
absl::Status FaultStatus(int code, absl::string_view name,
                         absl::string_view text, absl::string_view what);

// DATA_LOSS of class kQuarantine, from what is known otherwise than by an error
// of a call.
absl::Status SuspectStatus(absl::string_view text);

// The class of a status that one of these made; kNone for others.
FaultClass FaultOf(const absl::Status& status);

}  // namespace gpupool::engine::cuda
