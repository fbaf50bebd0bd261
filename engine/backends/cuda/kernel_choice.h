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
#include "engine/backends/portable/kernel_makers.h"

namespace gpupool::engine::cuda {

class KernelChoice {
 public:
  // `libraries` may be null and outlives the kernels. `log` receives a line
  // when a library refuses what it should take, no line twice; may be empty.
  KernelChoice(CudaLibraries* libraries,
               std::function<void(absl::string_view)> log)
      : libraries_(libraries), log_(std::move(log)) {}

  portable::KernelOr Choose(const CompileRequest& request,
                            const portable::PortableContext& context);

 private:
  void Report(const Node& node, const absl::Status& refusal);

  CudaLibraries* const libraries_;
  const std::function<void(absl::string_view)> log_;
  absl::flat_hash_set<std::string> reported_;  // a bounded number
};

}  // namespace gpupool::engine::cuda
