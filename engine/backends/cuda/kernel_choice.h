// Chooses a node's kernel on a GPU: a library's kernel where one takes the
// node, else a portable one. A planner, which only needs sizes, makes the same
// choice as a device.
//
// Thread-safety: compute thread only.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "engine/backends/cuda/cuda_libraries.h"
#include "engine/backends/cuda/driver/device_limits.h"
#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::cuda {

class KernelChoice {
 public:
  // `facts` of the GPU and `libraries` must outlive the kernels. `libraries`
  // may be null. `log` may be empty. It receives a line when a library refuses
  // a node that it should take and when the GPU has no tensor cores for a
  // precision. It receives no line twice.
  KernelChoice(const DeviceFacts* facts, CudaLibraries* libraries,
               std::function<void(absl::string_view)> log)
      : facts_(*facts),
        cores_(TensorCoresOf(facts_)),
        libraries_(libraries),
        log_(std::move(log)) {}

  portable::KernelOr Choose(const CompileRequest& request,
                            const portable::PortableContext& context);

 private:
  void Report(const std::string& line);
  void ReportPrecision(const CompileRequest& request);
  void ReportRefusal(const Node& node, const absl::Status& refusal);

  const DeviceFacts& facts_;
  const TensorCores cores_;
  CudaLibraries* const libraries_;
  const std::function<void(absl::string_view)> log_;
  absl::flat_hash_set<std::string> reported_;  // bounded
};

}  // namespace gpupool::engine::cuda
