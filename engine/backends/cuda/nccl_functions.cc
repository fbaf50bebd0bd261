#include "engine/backends/cuda/nccl_functions.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/shared_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::Status NcclFunctions::StatusOf(ncclResult_t code,
                                     absl::string_view what) const {
  if (code == ncclSuccess || code == ncclInProgress) return absl::OkStatus();
  const std::string text = absl::StrCat(
      what, ": NCCL says ", static_cast<int>(code), ", ", error_text(code));
  if (code == ncclRemoteError || code == ncclSystemError) {
    return absl::UnavailableError(text);
  }
  return absl::InternalError(text);
}

absl::StatusOr<NcclFunctions> FindNccl(const std::string& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open("libnccl.so.2", folders));
  NcclFunctions f;
  RETURN_IF_ERROR(library.Find("ncclGetVersion", f.version));
  RETURN_IF_ERROR(library.Find("ncclGetErrorString", f.error_text));
  RETURN_IF_ERROR(library.Find("ncclGetUniqueId", f.make_id));
  RETURN_IF_ERROR(library.Find("ncclCommInitRankConfig", f.join));
  RETURN_IF_ERROR(library.Find("ncclCommGetAsyncError", f.state));
  RETURN_IF_ERROR(library.Find("ncclCommAbort", f.abort));
  RETURN_IF_ERROR(library.Find("ncclCommFinalize", f.finish));
  RETURN_IF_ERROR(library.Find("ncclCommDestroy", f.destroy));
  RETURN_IF_ERROR(library.Find("ncclAllReduce", f.all_reduce));
  return f;
}

std::string NcclVersion(const NcclFunctions& functions) {
  int version = 0;
  if (functions.version(&version) != ncclSuccess) return "of no version";
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

}  // namespace gpupool::engine::cuda
