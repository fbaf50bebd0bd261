#include "engine/backends/cuda/nccl/nccl_functions.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::Status NcclFunctions::StatusOf(ncclResult_t code,
                                     absl::string_view what) const {
  if (code == ncclSuccess || code == ncclInProgress) return absl::OkStatus();
  const std::string text = absl::StrCat(
      what, ": NCCL says ", static_cast<int>(code), ", ", error_text(code));
  // A lost peer shows as one of these. The same work may succeed in another
  // attempt.
  if (code == ncclRemoteError || code == ncclSystemError) {
    return absl::UnavailableError(text);
  }
  return absl::InternalError(text);
}

absl::StatusOr<NcclFunctions> FindNccl(const std::string& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open("libnccl.so.2", folders));
  NcclFunctions f;
  RETURN_IF_ERROR(library.Find({{"ncclGetVersion", f.version},
                                {"ncclGetErrorString", f.error_text},
                                {"ncclGetUniqueId", f.make_id},
                                {"ncclCommInitRankConfig", f.join},
                                {"ncclCommGetAsyncError", f.state},
                                {"ncclCommAbort", f.abort},
                                {"ncclCommFinalize", f.finish},
                                {"ncclCommDestroy", f.destroy},
                                {"ncclAllReduce", f.all_reduce}}));
  return f;
}

std::string NcclVersion(const NcclFunctions& functions) {
  int version = 0;
  if (functions.version(&version) != ncclSuccess) return "of no version";
  return LibraryVersion(version);
}

}  // namespace gpupool::engine::cuda
