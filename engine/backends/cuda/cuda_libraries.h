// NVIDIA's libraries on this machine, opened for one stream. Or opened for
// planning only: then they tell the scratch memory of their kernels for a
// described device. A missing library is no error: its kernels are not offered.
//
// Thread-safety: compute thread only. Kernels refer to the libraries, which
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
  std::string cache_folder;  // for plans; empty: plans are not kept
  std::string device;        // as PlanDevice names it
  // Must outlive the libraries. Without `communication` there are no kernels
  // that sum over ranks.
  const Stream* compute = nullptr;
  const Stream* communication = nullptr;
  // A device in cuDNN's terms, as CudnnDescription writes it. If not empty, the
  // libraries only plan, streams are not used, and no library creates a
  // context.
  std::string planned_device;
};

class CudaLibraries {
 public:
  explicit CudaLibraries(const CudaLibraryOptions& options);
  CudaLibraries(const CudaLibraries&) = delete;
  CudaLibraries& operator=(const CudaLibraries&) = delete;

  // Returns versions and errors, as "cuBLASLt 13.1.0; no cuDNN (...); NCCL
  // 2.28.3".
  std::string Describe() const;
  // Returns FAILED_PRECONDITION when cuDNN is there but cannot plan for a
  // described device. Returns OK when the libraries are not for planning.
  const absl::Status& cannot_plan() const { return cannot_plan_; }

  // Makes a library's kernel. Null where no library should take the node.
  //   UNIMPLEMENTED  a library should take the node but refused; names it
  portable::KernelOr MakeKernel(const CompileRequest& request,
                                const portable::PortableContext& context);

  // Returns the ranks of the job that has programs here. Null without such a
  // job.
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
  std::unique_ptr<CublasLt> cublaslt_;  // null when missing
  std::unique_ptr<CudnnLibrary> cudnn_;
  std::unique_ptr<NcclAllReduce> nccl_;
  std::string nccl_version_;
  absl::Status cannot_plan_;
  absl::Status no_cublaslt_, no_cudnn_, no_nccl_;
};

}  // namespace gpupool::engine::cuda
