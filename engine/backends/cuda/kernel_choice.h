// Which kernel a node gets on a GPU: one of NVIDIA's libraries where one takes
// it, else a portable one. The same for a device that runs the kernels and for
// a planner that only asks for their sizes.
//
// Thread-safety: the compute thread's.
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
  // `facts` of the GPU and `libraries`, which may be null, outlive the kernels.
  // `log` receives a line when a library refuses what it should take, or when
  // the GPU has no tensor cores for a precision; no line twice. May be empty.
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
  absl::flat_hash_set<std::string> reported_;  // a bounded number
};

}  // namespace gpupool::engine::cuda
