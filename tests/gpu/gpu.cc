#include "tests/gpu/gpu.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "engine/backends/cuda/driver/fault_class.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kDeviceLost = 3;  // an exit code

std::string FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

std::string CudaModulePath() {
  std::string path = FromEnvironment("GPUPOOL_CUDA_MODULE");
  if (!path.empty()) return path;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto found =
      FindCudaModule({(self.parent_path().parent_path() / "lib").string()});
  return found.ok() ? *found : "";
}

std::string VendorLibraryDirs() {
  return FromEnvironment("GPUPOOL_CUDA_LIB_DIR");
}

absl::StatusOr<std::unique_ptr<Gpu>> Gpu::Open() {
  const std::string path = CudaModulePath();
  if (path.empty()) {
    return absl::NotFoundError("there is no libgpupool_cuda.so beside this");
  }
  ASSIGN_OR_RETURN(DeviceModule * module, LoadDeviceModule(path));
  ModuleDeviceOptions options;
  options.vendor_library_dirs = VendorLibraryDirs();
  options.plan_cache_dir = FromEnvironment("GPUPOOL_PLAN_CACHE_DIR");
  options.log = [](absl::string_view line) {
    std::cout << "log: " << line << std::endl;
  };
  auto gpu = std::make_unique<Gpu>();
  ASSIGN_OR_RETURN(gpu->device_, module->Open(options));
  const DeviceFacts& facts = gpu->device_->facts();
  std::cout << "on " << facts.name << ", driver " << facts.driver_version
            << ", " << facts.libraries << std::endl;
  gpu->allocator_ = std::make_unique<CachingAllocator>(
      "cuda:0", facts.total_bytes / 10 * 9, &gpu->device_->pages(),
      &gpu->device_->timeline());
  return gpu;
}

absl::StatusOr<Gpu*> Gpu::Get() {
  // Not destroyed at the end of the process, because the driver may be gone by
  // then.
  static auto* const opened = new absl::StatusOr<std::unique_ptr<Gpu>>(Open());
  if (!opened->ok()) return opened->status();
  return (*opened)->get();
}

void EndIfDeviceIsLost() {
  if (!::testing::Test::HasFailure()) return;
  const auto gpu = Gpu::Get();
  if (!gpu.ok()) return;
  const absl::Status status = (*gpu)->transfer().Synchronize();
  if (!cuda::EndsProcess(cuda::FaultOf(status))) return;
  std::cout << "the device is lost: " << status << std::endl;
  std::_Exit(kDeviceLost);
}

void GpuTest::SetUp() {
  const auto gpu = Gpu::Get();
  if (!gpu.ok()) {
    GTEST_SKIP() << "no GPU: " << gpu.status().message();
  }
  gpu_ = *gpu;
  const absl::Status current = gpu_->device().MakeCurrent();
  ASSERT_TRUE(current.ok()) << current;
}

}  // namespace gpupool::engine::testing
