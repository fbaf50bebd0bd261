// How cuDNN is to run a graph of operations: plans that its heuristics propose,
// filtered by what is asked for, and what is needed to run one.
//
// Plans can be made for a device that is not there, from a description of it:
// so tests see whether the library takes a graph where there is no GPU.
// Thread-safety: one thread at a time. The library outlives its plans.
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
  // For the current device; work is queued on `stream`. `device` names it in
  // the keys of `cache`, which must outlive the library.
  static absl::StatusOr<std::unique_ptr<CudnnLibrary>> Open(
      const CudnnFunctions& functions, cudaStream_t stream,
      absl::string_view device, PlanCache* cache);
  // Only makes plans. `properties`: the JSON text of cuDNN's description of a
  // device (9.8 and later).
  static absl::StatusOr<std::unique_ptr<CudnnLibrary>> ForDescription(
      const CudnnFunctions& functions, absl::string_view properties,
      PlanCache* cache);
  // As ForDescription, for a planner: kernels have sizes and cannot run, and no
  // plan is built. `device` names it in the keys of `cache`, as with Open.
  static absl::StatusOr<std::unique_ptr<CudnnLibrary>> ForPlanning(
      const CudnnFunctions& functions, absl::string_view properties,
      absl::string_view device, PlanCache* cache);
  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  const CudnnFunctions& functions() const { return functions_; }
  cudnnHandle_t handle() const { return handle_; }
  // Of a description; null with a device.
  cudnnBackendDescriptor_t description() const { return description_.get(); }
  bool only_plans() const { return only_plans_; }
  cudaStream_t stream() const { return stream_; }
  PlanCache& cache() const { return *cache_; }
  // What keys in the cache begin with.
  const std::string& name() const { return name_; }

  // A plan that a kernel has under this key; null: none. Some take the library
  // a third of a second to make, and models repeat their layers.
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
  // Of float32 operands: tensor cores may round them.
  bool tensor_float32 = false;
  bool float32 = false;  // whether the operands are
  uint64_t workspace_bytes = uint64_t{512} << 20;
  int most = 1;  // plans to return, the best first
};

// A plan and the addresses of one run of it.
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

  // Addresses of the tensors that have memory, and of numbers by value, which
  // lie in the host's memory and must stay there.
  struct Address {
    CudnnGraph::Id tensor;
    const void* data;
  };
  absl::Status Bind(absl::Span<const Address> addresses, void* workspace);
  // Queues one run.
  absl::Status Run();

 private:
  const CudnnLibrary* library_;
  std::shared_ptr<const CudnnDescriptor> plan_;  // of all kernels that use it
  uint64_t workspace_bytes_;
  CudnnDescriptor pack_;
};

// At least one plan. UNIMPLEMENTED when the library has none that fits.
absl::StatusOr<std::vector<CudnnPlan>> ChoosePlans(
    const CudnnLibrary& library, CudnnGraph& graph,
    const CudnnPlanOptions& options);

// The workspace of the plans that ChoosePlans would return, or of the hungriest
// of them, without building one: nothing is compiled and no driver is needed.
// It takes engines at their word, of which some may refuse when a plan is made.
// UNIMPLEMENTED when the library has none that fits.
absl::StatusOr<uint64_t> AskWorkspace(const CudnnLibrary& library,
                                      CudnnGraph& graph,
                                      const CudnnPlanOptions& options);

// A plan's place in the cache.
std::string PlanKey(const CudnnLibrary& library, const CudnnGraph& graph,
                    const CudnnPlanOptions& options);
// Keeps the plan that was measured to be the best.
void KeepPlan(const CudnnLibrary& library, const std::string& key,
              const CudnnPlan& plan);
// One that another kernel uses, else the one in the cache. NOT_FOUND when none
// is kept, or none that the library takes back.
absl::StatusOr<CudnnPlan> RestorePlan(const CudnnLibrary& library,
                                      const std::string& key);

}  // namespace gpupool::engine::cuda
