// cuDNN's graph interface, found at run time. Prototypes are those of its
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

  // OK, UNIMPLEMENTED for what the library does not offer, RESOURCE_EXHAUSTED,
  // UNAVAILABLE where the driver failed, or INTERNAL; with the library's own
  // reason. `what` names the call's aim.
  absl::Status StatusOf(cudnnStatus_t code, absl::string_view what) const;
};

// `folders` as SharedLibrary::Open. NOT_FOUND without the library,
// FAILED_PRECONDITION when it lacks a function or is older than 9.0.
absl::StatusOr<CudnnFunctions> FindCudnn(const std::string& folders);

// "9.19.0"
std::string CudnnVersion(const CudnnFunctions& functions);

}  // namespace gpupool::engine::cuda
