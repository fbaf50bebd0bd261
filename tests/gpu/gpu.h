// The GPU that the suite runs on. The module beside the test binary (or the one
// that GPUPOOL_CUDA_MODULE names) is opened once, with an allocator over the
// GPU's memory. NVIDIA's libraries are looked for in GPUPOOL_CUDA_LIB_DIR
// first.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_module.h"

namespace gpupool::engine::testing {

class Gpu {
 public:
  // Opens the GPU at the first call. FAILED_PRECONDITION or NOT_FOUND if there
  // is none.
  static absl::StatusOr<Gpu*> Get();

  ModuleDevice& device() { return *device_; }
  DeviceBackend& backend() { return device_->backend(); }
  Transfer& transfer() { return device_->backend().transfer(); }
  CachingAllocator& allocator() { return *allocator_; }

 private:
  static absl::StatusOr<std::unique_ptr<Gpu>> Open();

  std::unique_ptr<ModuleDevice> device_;
  std::unique_ptr<CachingAllocator> allocator_;
};

// Returns the file of gpupool_cuda, or "" if it does not exist.
std::string CudaModulePath();
// Returns the folders of NVIDIA's libraries; may be empty.
std::string VendorLibraryDirs();

// Ends the process if the current test failed because a fault destroyed the
// context, since no later test could pass. tools/gpu_test.sh continues with the
// next test in a new process.
void EndIfDeviceIsLost();

// Skips its tests, with the reason, if there is no GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override { EndIfDeviceIsLost(); }
  Gpu& gpu() { return *gpu_; }

 private:
  Gpu* gpu_ = nullptr;
};

}  // namespace gpupool::engine::testing
