// NVIDIA's libraries as this machine has them, started for one stream, or only
// asked what scratch memory their kernels take on a device that is described.
// What is missing is no error: its kernels are not offered.
//
// Thread-safety: the compute thread's. Kernels refer to the libraries, which
// must outlive them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/backends/cuda/cublaslt/cublaslt_matmul.h"
#include "engine/backends/cuda/cudnn/cudnn_plan.h"
#include "engine/backends/cuda/kernels/plan_cache.h"
#include "engine/backends/cuda/nccl/nccl_all_reduce.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

struct CudaLibraryOptions {
  std::string folders;       // as SharedLibrary::Open
  std::string cache_folder;  // of plans; empty: they are not kept
  std::string device;        // PlanDevice of the device
  // Outlive the libraries. Without `communication` there are no sums over
  // ranks.
  const Stream* compute = nullptr;
  const Stream* communication = nullptr;
  // cuDNN's description of a device, as CudnnDescription writes it. When it is
  // not empty the libraries only plan, streams are not used, and no call of
  // theirs makes a context.
  std::string planned_device;
};

class CudaLibraries {
 public:
  explicit CudaLibraries(const CudaLibraryOptions& options);
  CudaLibraries(const CudaLibraries&) = delete;
  CudaLibraries& operator=(const CudaLibraries&) = delete;

  // "cuBLASLt 13.1.0; cuDNN is missing: ..."
  std::string Describe() const;
  // FAILED_PRECONDITION when cuDNN is there but cannot plan for a device that
  // is described; OK where nothing is planned.
  const absl::Status& cannot_plan() const { return cannot_plan_; }

  // A kernel of a library; null where none takes the node.
  //   UNIMPLEMENTED  the library that would have refused
  portable::KernelOr MakeKernel(const CompileRequest& request,
                                const portable::PortableContext& context);

  // Of the ranks of the job whose programs there are; null without such.
  NcclGroup* ranks() const {
    return nccl_ == nullptr ? nullptr : nccl_->group();
  }

 private:
  absl::Status OpenCublasLt(const CudaLibraryOptions& options);
  absl::Status OpenCudnn(const CudaLibraryOptions& options);
  absl::Status OpenNccl(const CudaLibraryOptions& options);
  portable::KernelOr MakeAttention(const CompileRequest& request,
                                   const portable::PortableContext& context);

  PlanCache cache_;
  std::unique_ptr<CublasLt> cublaslt_;  // null: missing, and why
  std::unique_ptr<CudnnLibrary> cudnn_;
  std::unique_ptr<NcclAllReduce> nccl_;
  std::string nccl_version_;
  absl::Status cannot_plan_;
  absl::Status no_cublaslt_, no_cudnn_, no_nccl_;
};

}  // namespace gpupool::engine::cuda
