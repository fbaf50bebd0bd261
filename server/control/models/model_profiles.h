// Requests to profile a served version.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <cstdint>
#include <string>

#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class ProfileModelRequest;
}  // namespace gpupool::v1

namespace gpupool::server {

struct ControlContext;

// A trace in the blob store, and what was profiled.
struct ModelProfile {
  std::string sha256;
  uint64_t bytes = 0;
  uint32_t requests = 0;
  uint64_t version = 0;
};

// Lets the worker of the version profile it; version 0 is the newest that is
// READY. The request must have a number of requests. Nothing refers to the
// blob.
//   NotFound            there is no such version
//   FailedPrecondition  it is not READY, or is being profiled already
//   DeadlineExceeded    it took longer than options.profile_timeout
//   Unavailable         its worker is not connected
//   other codes         the worker's: see model.proto
void ProfileModel(const ControlContext& context,
                  const v1::ProfileModelRequest& request,
                  Callback<ModelProfile> callback);

}  // namespace gpupool::server
