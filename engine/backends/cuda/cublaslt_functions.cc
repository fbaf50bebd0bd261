#include "engine/backends/cuda/cublaslt_functions.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/shared_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::StatusOr<CublasLtFunctions> FindCublasLt(const std::string& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open("libcublasLt.so.13", folders));
  CublasLtFunctions f;
  RETURN_IF_ERROR(library.Find("cublasLtCreate", f.create));
  RETURN_IF_ERROR(library.Find("cublasLtDestroy", f.destroy));
  RETURN_IF_ERROR(library.Find("cublasLtGetVersion", f.version));
  RETURN_IF_ERROR(library.Find("cublasLtMatmul", f.matmul));
  RETURN_IF_ERROR(library.Find("cublasLtMatmulDescCreate", f.make_operation));
  RETURN_IF_ERROR(library.Find("cublasLtMatmulDescDestroy", f.drop_operation));
  RETURN_IF_ERROR(
      library.Find("cublasLtMatmulDescSetAttribute", f.set_operation));
  RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutCreate", f.make_layout));
  RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutDestroy", f.drop_layout));
  RETURN_IF_ERROR(
      library.Find("cublasLtMatrixLayoutSetAttribute", f.set_layout));
  RETURN_IF_ERROR(
      library.Find("cublasLtMatmulPreferenceCreate", f.make_preference));
  RETURN_IF_ERROR(
      library.Find("cublasLtMatmulPreferenceDestroy", f.drop_preference));
  RETURN_IF_ERROR(
      library.Find("cublasLtMatmulPreferenceSetAttribute", f.set_preference));
  RETURN_IF_ERROR(library.Find("cublasLtMatmulAlgoGetHeuristic", f.heuristic));
  RETURN_IF_ERROR(library.Find("cublasLtMatmulAlgoCheck", f.check));
  RETURN_IF_ERROR(library.Find("cublasLtMatmulAlgoConfigGetAttribute",
                               f.algorithm_attribute));
  return f;
}

std::string CublasLtVersion(const CublasLtFunctions& functions) {
  const size_t version = functions.version();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

absl::Status StatusOf(cublasStatus_t code, absl::string_view what) {
  const std::string text =
      absl::StrCat(what, ": cuBLASLt says ", static_cast<int>(code));
  switch (code) {
    case CUBLAS_STATUS_SUCCESS:
      return absl::OkStatus();
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, " (out of memory)"));
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return absl::UnimplementedError(absl::StrCat(text, " (not supported)"));
    default:
      return absl::InternalError(text);
  }
}

}  // namespace gpupool::engine::cuda
