// The interface of libgpupool_cuda.so.
#include "engine/backends/cuda/built_architectures.h"
#include "engine/backends/cuda/cuda_device.h"
#include "engine/backends/cuda/driver/device_query.h"
#include "engine/backends/cuda/driver/nvml.h"
#include "engine/backends/cuda/planning_backend.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/module_build_id.h"

namespace gpupool::engine::cuda {
namespace {

class CudaModule : public DeviceModule {
 public:
  absl::StatusOr<int> CountDevices() override { return CountGpus(); }
  ModuleArchitectures Architectures() const override {
    return BuiltArchitectures();
  }
  absl::StatusOr<DeviceFacts> Describe(int index) override {
    return DescribeGpu(index);
  }
  absl::StatusOr<DeviceLinks> Links(
      const std::string& vendor_library_dirs) override {
    ASSIGN_OR_RETURN(const int count, CountGpus());
    std::vector<std::string> uuids;
    for (int i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(const DeviceFacts facts, DescribeGpu(i));
      uuids.push_back(facts.uuid);
    }
    const auto nvml = Nvml::OpenFrom(vendor_library_dirs);
    if (nvml.ok()) return (*nvml)->LinksBetween(uuids);
    return DeviceLinks(uuids.size(), std::vector<std::string>(uuids.size()));
  }
  absl::StatusOr<std::unique_ptr<ModuleDevice>> Open(
      const ModuleDeviceOptions& options) override {
    ASSIGN_OR_RETURN(std::unique_ptr<ModuleDevice> device,
                     CudaDevice::Open(options));
    return device;
  }
  absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanner(
      const DeviceFacts& facts, const ModuleDeviceOptions& options) override {
    return MakePlanningBackend(facts, options);
  }
};

}  // namespace
}  // namespace gpupool::engine::cuda

// The only symbol that the module exports.
extern "C" __attribute__((visibility("default"))) void gpupool_device_module(
    gpupool::engine::ModuleEntry* entry) {
  static gpupool::engine::cuda::CudaModule module;
  entry->build_id = gpupool::engine::ModuleBuildId();
  entry->module = &module;
}
