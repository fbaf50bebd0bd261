// cuBLASLt, found at run time. The prototypes come from its header.
#pragma once

#include <cublasLt.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

struct CublasLtFunctions {
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtGetVersion) version = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulDescCreate) make_operation = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) drop_operation = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) drop_layout = nullptr;
  decltype(&::cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) drop_preference = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&::cublasLtMatmulAlgoCheck) check = nullptr;
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) algorithm_attribute =
      nullptr;
};

// Finds the library as SharedLibrary::Open does. NOT_FOUND without the library,
// FAILED_PRECONDITION when it lacks a function.
absl::StatusOr<CublasLtFunctions> FindCublasLt(const std::string& folders);

// Returns the version as in "13.1.0".
std::string CublasLtVersion(const CublasLtFunctions& functions);

// Returns the status of a call. `what` names the call's aim.
//   OK
//   RESOURCE_EXHAUSTED  memory ran out
//   UNIMPLEMENTED       the library does not offer this
//   INTERNAL            everything else, with the code
absl::Status StatusOf(cublasStatus_t code, absl::string_view what);

}  // namespace gpupool::engine::cuda
