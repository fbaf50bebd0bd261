// cuDNN's graph interface, found at run time. The prototypes come from its
// header.
#pragma once

#include <cudnn_graph.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

struct CudnnFunctions {
  decltype(&::cudnnGetVersion) version = nullptr;
  decltype(&::cudnnGetLastErrorString) last_error = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) make_descriptor = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) drop_descriptor = nullptr;
  decltype(&::cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&::cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;

  // Returns the status of a call, with the library's own reason. `what` names
  // the call's aim.
  //   OK
  //   UNIMPLEMENTED       the library does not offer this
  //   RESOURCE_EXHAUSTED  memory ran out
  //   UNAVAILABLE         the driver failed
  //   INTERNAL            everything else
  absl::Status StatusOf(cudnnStatus_t code, absl::string_view what) const;
};

// Finds the library as SharedLibrary::Open does. NOT_FOUND without the library,
// FAILED_PRECONDITION when it lacks a function or is older than 9.0.
absl::StatusOr<CudnnFunctions> FindCudnn(const std::string& folders);

// Returns the version as in "9.19.0".
std::string CudnnVersion(const CudnnFunctions& functions);

}  // namespace gpupool::engine::cuda
