#include "engine/backends/cuda/driver/fault_class.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace gpupool::engine::cuda {
namespace {

constexpr absl::string_view kPayload = "gpupool/cuda-fault";

struct FaultRow {
  int code;
  FaultClass fault;
};

// Sorted by code. Unlisted codes are recoverable: cudaErrorInvalidValue (1) and
// the like, capture errors (900 to 908), a refused graph update (910).
constexpr FaultRow kFaultRows[] = {
    {0, FaultClass::kNone},          {2, FaultClass::kOutOfMemory},
    {3, FaultClass::kUnavailable},    // cannot be initialized
    {4, FaultClass::kSticky},         // the runtime is shutting down
    {35, FaultClass::kUnavailable},   // the driver is older than the runtime
    {46, FaultClass::kUnavailable},   // devices busy or exclusive
    {100, FaultClass::kUnavailable},  // no device
    {101, FaultClass::kUnavailable},  // no such device
    {214, FaultClass::kQuarantine},   // uncorrectable ECC error
    {226, FaultClass::kSticky},       // contained memory error
    {700, FaultClass::kSticky},       // illegal address
    {702, FaultClass::kSticky},       // launch timeout
    {709, FaultClass::kSticky},       // context destroyed
    {710, FaultClass::kSticky},       // device assert
    {714, FaultClass::kSticky},       // hardware stack
    {715, FaultClass::kSticky},       // illegal instruction
    {716, FaultClass::kSticky},       // misaligned address
    {717, FaultClass::kSticky},       // invalid address space
    {718, FaultClass::kSticky},       // invalid program counter
    {719, FaultClass::kSticky},       // launch failure
    {721, FaultClass::kSticky},       // tensor memory leak
    {802, FaultClass::kUnavailable},  // system not yet initialized
    {803, FaultClass::kUnavailable},  // driver and runtime do not fit
    {804, FaultClass::kUnavailable},  // compatibility not supported here
    {810, FaultClass::kSticky},       // MPS client terminated
    {911, FaultClass::kSticky},       // external device
    {999, FaultClass::kSticky},       // unknown: nothing can be trusted
};

absl::StatusCode CodeOf(FaultClass fault) {
  switch (fault) {
    case FaultClass::kNone:
      return absl::StatusCode::kOk;
    case FaultClass::kOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case FaultClass::kUnavailable:
      return absl::StatusCode::kFailedPrecondition;
    case FaultClass::kSticky:
      return absl::StatusCode::kUnavailable;
    case FaultClass::kQuarantine:
      return absl::StatusCode::kDataLoss;
    case FaultClass::kRecoverable:
      break;
  }
  return absl::StatusCode::kInternal;
}

absl::Status Marked(FaultClass fault, absl::string_view text) {
  absl::Status status(CodeOf(fault), text);
  // The class travels in the payload, since other errors have the same codes.
  status.SetPayload(kPayload,
                    absl::Cord(std::string(1, static_cast<char>(fault))));
  return status;
}

}  // namespace

FaultClass ClassifyFault(int code) {
  const FaultRow* row =
      std::lower_bound(std::begin(kFaultRows), std::end(kFaultRows), code,
                       [](const FaultRow& a, int b) { return a.code < b; });
  if (row == std::end(kFaultRows) || row->code != code) {
    return FaultClass::kRecoverable;
  }
  return row->fault;
}

absl::Status FaultStatus(int code, absl::string_view name,
                         absl::string_view text, absl::string_view what) {
  const FaultClass fault = ClassifyFault(code);
  if (fault == FaultClass::kNone) return absl::OkStatus();
  return Marked(fault, absl::StrCat(what, ": ", text, " (CUDA error ", code,
                                    ", ", name, ")"));
}

absl::Status SuspectStatus(absl::string_view text) {
  return Marked(FaultClass::kQuarantine, text);
}

FaultClass FaultOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value() || payload->size() != 1) return FaultClass::kNone;
  return static_cast<FaultClass>((*payload)[0]);
}

}  // namespace gpupool::engine::cuda
