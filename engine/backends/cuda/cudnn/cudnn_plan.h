// Plans by which cuDNN runs a graph of operations. The library's heuristics
// propose them, and options filter them.
//
// Plans can be made for an absent device from a description. So tests check
// whether the library takes a graph on machines without a GPU.
//
// Thread-safety: one thread at a time. The library must outlive its plans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backends/cuda/cudnn/cudnn_graph.h"
#include "engine/backends/cuda/kernels/plan_cache.h"

namespace gpupool::engine::cuda {

class CudnnLibrary {
 public:
  // Opens the library for the current device and queues work on `stream`.
  // `device` names the device in the keys of `cache`, which must outlive the
  // library.
  static absl::StatusOr<std::unique_ptr<CudnnLibrary>> Open(
      const CudnnFunctions& functions, cudaStream_t stream,
      absl::string_view device, PlanCache* cache);
  // Opens the library only to make plans. `properties` is the JSON text of
  // cuDNN's description of a device (9.8 and later).
  static absl::StatusOr<std::unique_ptr<CudnnLibrary>> ForDescription(
      const CudnnFunctions& functions, absl::string_view properties,
      PlanCache* cache);
  // Does the same for a planner: no plan is built, and kernels have sizes but
  // cannot run. `device` names the device in the keys of `cache`, as with Open.
  static absl::StatusOr<std::unique_ptr<CudnnLibrary>> ForPlanning(
      const CudnnFunctions& functions, absl::string_view properties,
      absl::string_view device, PlanCache* cache);
  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  const CudnnFunctions& functions() const { return functions_; }
  cudnnHandle_t handle() const { return handle_; }
  // Returns the description of the device, or null for a library with a device.
  cudnnBackendDescriptor_t description() const { return description_.get(); }
  bool only_plans() const { return only_plans_; }
  cudaStream_t stream() const { return stream_; }
  PlanCache& cache() const { return *cache_; }
  // Returns the prefix of keys in the cache.
  const std::string& name() const { return name_; }

  // Returns the plan that another kernel has under this key, or null. Models
  // repeat their layers, and a plan may take a third of a second to make.
  std::shared_ptr<const CudnnDescriptor> FindShared(
      const std::string& key) const;
  void Share(const std::string& key,
             const std::shared_ptr<const CudnnDescriptor>& plan) const;

 private:
  static std::string NameOf(const CudnnFunctions& functions,
                            absl::string_view device);
  CudnnLibrary(const CudnnFunctions& functions, absl::string_view device,
               PlanCache* cache);

  const CudnnFunctions functions_;
  PlanCache* const cache_;
  std::string name_;
  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  CudnnDescriptor description_;
  bool only_plans_ = false;
  mutable absl::flat_hash_map<std::string, std::weak_ptr<const CudnnDescriptor>>
      shared_;
};

struct CudnnPlanOptions {
  bool deterministic = false;
  // Whether tensor cores may round float32 operands.
  bool tensor_float32 = false;
  bool float32 = false;  // whether the operands are float32
  uint64_t workspace_bytes = uint64_t{512} << 20;
  int most = 1;  // plans to return at most, best first
};

// A plan and the addresses of one run.
class CudnnPlan {
 public:
  CudnnPlan(const CudnnLibrary* library,
            std::shared_ptr<const CudnnDescriptor> plan,
            uint64_t workspace_bytes)
      : library_(library),
        plan_(std::move(plan)),
        workspace_bytes_(workspace_bytes) {}

  uint64_t workspace_bytes() const { return workspace_bytes_; }
  const std::shared_ptr<const CudnnDescriptor>& descriptor() const {
    return plan_;
  }

  // The addresses of tensors in memory and of numbers by value. The latter lie
  // in host memory and must stay valid.
  struct Address {
    CudnnGraph::Id tensor;
    const void* data;
  };
  absl::Status Bind(absl::Span<const Address> addresses, void* workspace);
  // Queues one run.
  absl::Status Run();

 private:
  const CudnnLibrary* library_;
  std::shared_ptr<const CudnnDescriptor> plan_;  // shared by kernels
  uint64_t workspace_bytes_;
  CudnnDescriptor pack_;
};

// Returns at least one plan, best first. UNIMPLEMENTED when the library has
// none that fits.
absl::StatusOr<std::vector<CudnnPlan>> ChoosePlans(
    const CudnnLibrary& library, CudnnGraph& graph,
    const CudnnPlanOptions& options);

// Returns the largest workspace of the plans that ChoosePlans would return.
// Builds no plan, so nothing is compiled and no driver is needed. Some of the
// engines may still refuse when a plan is built. UNIMPLEMENTED when the library
// has none that fits.
absl::StatusOr<uint64_t> AskWorkspace(const CudnnLibrary& library,
                                      CudnnGraph& graph,
                                      const CudnnPlanOptions& options);

// Returns the key of a plan in the cache.
std::string PlanKey(const CudnnLibrary& library, const CudnnGraph& graph,
                    const CudnnPlanOptions& options);
// Keeps a plan that was measured to be the fastest.
void KeepPlan(const CudnnLibrary& library, const std::string& key,
              const CudnnPlan& plan);
// Returns the plan that another kernel uses under this key, else the plan in
// the cache. NOT_FOUND when there is none or the library rejects it.
absl::StatusOr<CudnnPlan> RestorePlan(const CudnnLibrary& library,
                                      const std::string& key);

}  // namespace gpupool::engine::cuda
