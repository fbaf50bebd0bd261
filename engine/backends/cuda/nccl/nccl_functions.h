// NCCL, found at run time. The prototypes come from its header.
#pragma once

#include <nccl.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

struct NcclFunctions {
  decltype(&::ncclGetVersion) version = nullptr;
  decltype(&::ncclGetErrorString) error_text = nullptr;
  decltype(&::ncclGetUniqueId) make_id = nullptr;
  decltype(&::ncclCommInitRankConfig) join = nullptr;
  decltype(&::ncclCommGetAsyncError) state = nullptr;
  decltype(&::ncclCommAbort) abort = nullptr;
  decltype(&::ncclCommFinalize) finish = nullptr;
  decltype(&::ncclCommDestroy) destroy = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;

  // Returns the status of a call.
  //   OK           also for ncclInProgress: the call of a communicator that
  //   does
  //                not block continues in the background
  //   UNAVAILABLE  another rank or the network failed
  //   INTERNAL     everything else
  absl::Status StatusOf(ncclResult_t code, absl::string_view what) const;
};

// Finds the library as SharedLibrary::Open does. NOT_FOUND without the library,
// FAILED_PRECONDITION when it lacks a function.
absl::StatusOr<NcclFunctions> FindNccl(const std::string& folders);

// Returns the version as in "2.28.3".
std::string NcclVersion(const NcclFunctions& functions);

}  // namespace gpupool::engine::cuda
