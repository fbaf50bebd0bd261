#include "client/cli/command/exit_code.h"

namespace gpupool::client {

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return kUsage;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kDenied;
    case absl::StatusCode::kUnavailable:
      return kUnreachable;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return kConflict;
    case absl::StatusCode::kResourceExhausted:
      return kExhausted;
    case absl::StatusCode::kDeadlineExceeded:
      return kTimedOut;
    case absl::StatusCode::kCancelled:
      return kInterrupted;
    default:
      return kFailure;
  }
}

ExitCode ExitCodeFor(v1::JobState state) {
  return state == v1::SUCCEEDED ? kOk : kFailure;
}

}  // namespace gpupool::client
