// Makes kernels of matrix products by cuBLASLt.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backends/cuda/cublaslt/cublaslt_functions.h"
#include "engine/backends/cuda/kernels/plan_cache.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

// The library, opened for the current device. Work is queued on `stream`.
class CublasLt {
 public:
  // Opens the library. `device` names the device in the keys of `cache`, which
  // must outlive this object.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Open(
      const CublasLtFunctions& functions, cudaStream_t stream,
      absl::string_view device, PlanCache* cache);
  // Returns a library whose kernels have sizes but cannot run. Touches no
  // device.
  static std::unique_ptr<CublasLt> ForPlanning(
      const CublasLtFunctions& functions, absl::string_view device,
      PlanCache* cache);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const CublasLtFunctions& functions() const { return functions_; }
  cublasLtHandle_t handle() const { return handle_; }
  cudaStream_t stream() const { return stream_; }
  PlanCache& cache() const { return *cache_; }
  const std::string& name() const { return name_; }
  bool only_plans() const { return handle_ == nullptr; }

 private:
  CublasLt(const CublasLtFunctions& functions, cudaStream_t stream,
           absl::string_view device, PlanCache* cache);

  const CublasLtFunctions functions_;
  const cudaStream_t stream_;
  PlanCache* const cache_;
  const std::string name_;
  cublasLtHandle_t handle_ = nullptr;
};

// Makes kernels of kMatMul and kBatchMatMul. Null where the library has no
// product of these types or shapes. The library must outlive the kernel.
//
// With `benchmark`, the candidates are measured when the kernel is prepared for
// the first time, and the choice is kept in the cache.
//
// With `deterministic`, only sums in a fixed order are taken and nothing is
// measured, so that another process makes the same choice.
//
// The library tells the size of its workspace only with a device. So a planner
// takes the size that a process with a device has noted, or else 32 MiB, which
// is the most that a kernel asks for.
portable::KernelOr MakeCublasLtMatmul(const CublasLt* library,
                                      const CompileRequest& request,
                                      const portable::PortableContext& context);

}  // namespace gpupool::engine::cuda
