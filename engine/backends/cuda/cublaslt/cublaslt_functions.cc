#include "engine/backends/cuda/cublaslt/cublaslt_functions.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::StatusOr<CublasLtFunctions> FindCublasLt(const std::string& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open("libcublasLt.so.13", folders));
  CublasLtFunctions f;
  RETURN_IF_ERROR(library.Find(
      {{"cublasLtCreate", f.create},
       {"cublasLtDestroy", f.destroy},
       {"cublasLtGetVersion", f.version},
       {"cublasLtMatmul", f.matmul},
       {"cublasLtMatmulDescCreate", f.make_operation},
       {"cublasLtMatmulDescDestroy", f.drop_operation},
       {"cublasLtMatmulDescSetAttribute", f.set_operation},
       {"cublasLtMatrixLayoutCreate", f.make_layout},
       {"cublasLtMatrixLayoutDestroy", f.drop_layout},
       {"cublasLtMatrixLayoutSetAttribute", f.set_layout},
       {"cublasLtMatmulPreferenceCreate", f.make_preference},
       {"cublasLtMatmulPreferenceDestroy", f.drop_preference},
       {"cublasLtMatmulPreferenceSetAttribute", f.set_preference},
       {"cublasLtMatmulAlgoGetHeuristic", f.heuristic},
       {"cublasLtMatmulAlgoCheck", f.check},
       {"cublasLtMatmulAlgoConfigGetAttribute", f.algorithm_attribute}}));
  return f;
}

std::string CublasLtVersion(const CublasLtFunctions& functions) {
  return LibraryVersion(static_cast<int64_t>(functions.version()));
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
