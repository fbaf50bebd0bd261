// cuBLASLt, found at run time. Prototypes are those of its header.
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

// `folders` as SharedLibrary::Open. NOT_FOUND without the library,
// FAILED_PRECONDITION when it lacks a function.
absl::StatusOr<CublasLtFunctions> FindCublasLt(const std::string& folders);

// "13.1.0"
std::string CublasLtVersion(const CublasLtFunctions& functions);

// OK, RESOURCE_EXHAUSTED, UNIMPLEMENTED for what the library does not offer,
// or INTERNAL with the code. `what` names the call's aim.
absl::Status StatusOf(cublasStatus_t code, absl::string_view what);

}  // namespace gpupool::engine::cuda
