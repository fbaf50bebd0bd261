// A device module for tests of the loader. GPUPOOL_FAKE_MODULE says how it
// behaves: "empty" exports nothing; any other value is the build id that the
// module claims.
#include <cstdlib>
#include <cstring>

#include "engine/runtime/device_module.h"

namespace gpupool::engine {
namespace {

class FakeModule : public DeviceModule {
 public:
  absl::StatusOr<int> CountDevices() override { return 3; }
  ModuleArchitectures Architectures() const override { return {{90}, {90}}; }
  absl::StatusOr<DeviceFacts> Describe(int) override {
    return DeviceFacts{.name = "a device of the test"};
  }
  absl::StatusOr<DeviceLinks> Links(const std::string&) override {
    return DeviceLinks(3, std::vector<std::string>(3));
  }
  absl::StatusOr<std::unique_ptr<ModuleDevice>> Open(
      const ModuleDeviceOptions&) override {
    return absl::NotFoundError("there is nothing to open");
  }
  absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanner(
      const DeviceFacts&, const ModuleDeviceOptions&) override {
    return absl::FailedPreconditionError("there is nothing to plan for");
  }
};

}  // namespace
}  // namespace gpupool::engine

extern "C" void gpupool_device_module(gpupool::engine::ModuleEntry* entry) {
  static gpupool::engine::FakeModule module;
  const char* const id = std::getenv("GPUPOOL_FAKE_MODULE");
  if (id != nullptr && std::strcmp(id, "empty") == 0) return;
  entry->build_id = id;
  entry->module = &module;
}
