#include "engine/backends/cuda/cuda_libraries.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cudnn/cudnn_attention.h"
#include "engine/backends/cuda/cudnn/cudnn_convolution.h"
#include "engine/backends/cuda/cudnn/cudnn_norm.h"
#include "engine/backends/cuda/kernels/composed_attention.h"
#include "engine/backends/cuda/op_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

CudaLibraries::CudaLibraries(const CudaLibraryOptions& options)
    : cache_(options.cache_folder),
      no_cublaslt_(OpenCublasLt(options)),
      no_cudnn_(OpenCudnn(options)),
      no_nccl_(OpenNccl(options)) {}

absl::Status CudaLibraries::OpenCublasLt(const CudaLibraryOptions& options) {
  ASSIGN_OR_RETURN(const CublasLtFunctions functions,
                   FindCublasLt(options.folders));
  // A planner has no open device.
  if (!options.planned_device.empty()) {
    cublaslt_ = CublasLt::ForPlanning(functions, options.device, &cache_);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(cublaslt_,
                   CublasLt::Open(functions, options.compute->handle(),
                                  options.device, &cache_));
  return absl::OkStatus();
}

absl::Status CudaLibraries::OpenCudnn(const CudaLibraryOptions& options) {
  ASSIGN_OR_RETURN(const CudnnFunctions functions, FindCudnn(options.folders));
  if (!options.planned_device.empty()) {
    auto planner = CudnnLibrary::ForPlanning(functions, options.planned_device,
                                             options.device, &cache_);
    if (!planner.ok()) {
      cannot_plan_ = absl::FailedPreconditionError(
          absl::StrCat("cuDNN ", CudnnVersion(functions),
                       " cannot plan for a GPU that is not open (9.8 and later "
                       "can): ",
                       planner.status().message()));
      return cannot_plan_;
    }
    cudnn_ = *std::move(planner);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(cudnn_,
                   CudnnLibrary::Open(functions, options.compute->handle(),
                                      options.device, &cache_));
  return absl::OkStatus();
}

absl::Status CudaLibraries::OpenNccl(const CudaLibraryOptions& options) {
  // A planner has no streams but plans sums over ranks.
  if (options.communication == nullptr && options.planned_device.empty()) {
    return absl::UnimplementedError("programs that serve sum over no ranks");
  }
  ASSIGN_OR_RETURN(const NcclFunctions functions, FindNccl(options.folders));
  nccl_version_ = NcclVersion(functions);
  NcclGroup::Place place;
  place.compute = options.compute;
  place.communication = options.communication;
  nccl_ = std::make_unique<NcclAllReduce>(functions, place);
  return absl::OkStatus();
}

std::string CudaLibraries::Describe() const {
  const auto line = [](absl::string_view name, const absl::Status& missing,
                       absl::string_view version) {
    return missing.ok()
               ? absl::StrCat(name, " ", version)
               : absl::StrCat("no ", name, " (", missing.message(), ")");
  };
  return absl::StrCat(
      line("cuBLASLt", no_cublaslt_,
           cublaslt_ == nullptr ? "" : CublasLtVersion(cublaslt_->functions())),
      "; ",
      line("cuDNN", no_cudnn_,
           cudnn_ == nullptr ? "" : CudnnVersion(cudnn_->functions())),
      "; ", line("NCCL", no_nccl_, nccl_version_));
}

portable::KernelOr CudaLibraries::MakeKernel(
    const CompileRequest& request, const portable::PortableContext& context) {
  switch (LibraryOf(request.node.op)) {
    case Library::kMatMul:
      if (cublaslt_ == nullptr) return nullptr;
      return MakeCublasLtMatmul(cublaslt_.get(), request, context);
    case Library::kConvolution:
      if (cudnn_ == nullptr) return nullptr;
      return MakeCudnnConvolution(cudnn_.get(), request, context);
    case Library::kAttention:
      return MakeAttention(request, context);
    case Library::kNorm:
      if (cudnn_ == nullptr) return nullptr;
      return MakeCudnnNorm(cudnn_.get(), request, context);
    case Library::kAllReduce:
      // No other kernel can take the node, so the caller must get the reason.
      if (nccl_ == nullptr) return no_nccl_;
      return nccl_->MakeKernel(request);
    case Library::kNone:
      break;
  }
  return nullptr;
}

portable::KernelOr CudaLibraries::MakeAttention(
    const CompileRequest& request, const portable::PortableContext& context) {
  // cuDNN's attention takes only 16-bit types.
  if (portable::InputOf(request, 0).dtype != DType::kFloat32) {
    if (cudnn_ == nullptr) return nullptr;
    return MakeCudnnAttention(cudnn_.get(), request, context);
  }
  if (cublaslt_ == nullptr) return nullptr;
  return MakeComposedAttention(
      request, context, [&](const CompileRequest& product) {
        return MakeCublasLtMatmul(cublaslt_.get(), product, context);
      });
}

}  // namespace gpupool::engine::cuda
