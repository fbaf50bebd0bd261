#include "engine/backends/cuda/cudnn_functions.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/shared_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

absl::StatusOr<SharedLibrary> OpenCudnn(const std::string& folders) {
  // cuDNN opens the compiler by its bare name: where it lies in one of the
  // folders, it must be there already.
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
  switch (CUDNN_STATUS_CATEGORY(static_cast<int>(code))) {
    case 3000:
      return absl::UnimplementedError(text);
    case 4000:
      return code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                     code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                 ? absl::ResourceExhaustedError(text)
                 : absl::InternalError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::StatusOr<CudnnFunctions> FindCudnn(const std::string& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library, OpenCudnn(folders));
  CudnnFunctions f;
  RETURN_IF_ERROR(library.Find("cudnnGetVersion", f.version));
  RETURN_IF_ERROR(library.Find("cudnnGetLastErrorString", f.last_error));
  RETURN_IF_ERROR(library.Find("cudnnCreate", f.create));
  RETURN_IF_ERROR(library.Find("cudnnDestroy", f.destroy));
  RETURN_IF_ERROR(library.Find("cudnnSetStream", f.set_stream));
  RETURN_IF_ERROR(
      library.Find("cudnnBackendCreateDescriptor", f.make_descriptor));
  RETURN_IF_ERROR(
      library.Find("cudnnBackendDestroyDescriptor", f.drop_descriptor));
  RETURN_IF_ERROR(library.Find("cudnnBackendSetAttribute", f.set_attribute));
  RETURN_IF_ERROR(library.Find("cudnnBackendGetAttribute", f.get_attribute));
  RETURN_IF_ERROR(library.Find("cudnnBackendFinalize", f.finalize));
  RETURN_IF_ERROR(library.Find("cudnnBackendExecute", f.execute));
  return f;
}

std::string CudnnVersion(const CudnnFunctions& functions) {
  const size_t version = functions.version();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

}  // namespace gpupool::engine::cuda
