#include "engine/backends/cuda/cudnn/cudnn_functions.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

absl::StatusOr<SharedLibrary> OpenCudnn(const std::string& folders) {
  // cuDNN opens the compiler by its bare name. If the compiler is in one of the
  // folders, it must be loaded already.
  SharedLibrary::Open("libnvrtc.so.13", folders).IgnoreError();
  return SharedLibrary::Open("libcudnn.so.9", folders);
}

}  // namespace

absl::Status CudnnFunctions::StatusOf(cudnnStatus_t code,
                                      absl::string_view what) const {
  if (code == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char reason[512] = "";
  last_error(reason, sizeof(reason));
  const std::string text =
      absl::StrCat(what, ": cuDNN says ", static_cast<int>(code), ", ", reason);
  // Codes come in groups of a thousand: 3000 "not supported", 4000 internal
  // errors, 5000 failed executions.
  switch (CUDNN_STATUS_CATEGORY(static_cast<int>(code))) {
    case 3000:
      return absl::UnimplementedError(text);
    case 4000:
      return code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                     code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                 ? absl::ResourceExhaustedError(text)
                 : absl::InternalError(text);
    default:
      return code == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER
                 ? absl::UnavailableError(text)
                 : absl::InternalError(text);
  }
}

absl::StatusOr<CudnnFunctions> FindCudnn(const std::string& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library, OpenCudnn(folders));
  CudnnFunctions f;
  RETURN_IF_ERROR(
      library.Find({{"cudnnGetVersion", f.version},
                    {"cudnnGetLastErrorString", f.last_error},
                    {"cudnnCreate", f.create},
                    {"cudnnDestroy", f.destroy},
                    {"cudnnSetStream", f.set_stream},
                    {"cudnnBackendCreateDescriptor", f.make_descriptor},
                    {"cudnnBackendDestroyDescriptor", f.drop_descriptor},
                    {"cudnnBackendSetAttribute", f.set_attribute},
                    {"cudnnBackendGetAttribute", f.get_attribute},
                    {"cudnnBackendFinalize", f.finalize},
                    {"cudnnBackendExecute", f.execute}}));
  return f;
}

std::string CudnnVersion(const CudnnFunctions& functions) {
  return LibraryVersion(static_cast<int64_t>(functions.version()));
}

}  // namespace gpupool::engine::cuda
