#include "engine/backends/cuda/planning_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cuda_libraries.h"
#include "engine/backends/cuda/driver/device_limits.h"
#include "engine/backends/cuda/kernel_choice.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/plan_only.h"

namespace gpupool::engine::cuda {
namespace {

CudaLibraryOptions LibrariesFor(const DeviceFacts& facts,
                                const ModuleDeviceOptions& options) {
  CudaLibraryOptions wanted;
  wanted.folders = options.vendor_library_dirs;
  wanted.cache_folder = options.plan_cache_dir;
  wanted.device = PlanDevice(facts);
  wanted.planned_device = facts.properties;
  return wanted;
}

// Chooses kernels as a CudaBackend does on the device.
class Chooser : public DeviceBackend {
 public:
  Chooser(const DeviceFacts& facts, const ModuleDeviceOptions& options)
      : facts_(facts),
        libraries_(LibrariesFor(facts, options)),
        choice_(&facts_, &libraries_, options.log) {
    context_.resident_threads = ResidentThreads(facts);
  }

  const absl::Status& cannot_plan() const { return libraries_.cannot_plan(); }
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override {
    return choice_.Choose(request, context_);
  }

 private:
  const DeviceFacts facts_;
  CudaLibraries libraries_;
  KernelChoice choice_;
  portable::PortableContext context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanningBackend(
    const DeviceFacts& facts, const ModuleDeviceOptions& options) {
  if (facts.multiprocessors == 0 || facts.threads_per_multiprocessor == 0 ||
      facts.properties.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the facts of the ", facts.name,
        " do not say enough to plan for it; ask for them with a worker of "
        "this build"));
  }
  auto chooser = std::make_unique<Chooser>(facts, options);
  RETURN_IF_ERROR(chooser->cannot_plan());
  constexpr bool kCopiesBeside = true;
  return std::make_unique<PlanOnlyBackend>(std::move(chooser), kCopiesBeside);
}

}  // namespace gpupool::engine::cuda
