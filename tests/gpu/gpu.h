// The GPU that the suite runs on: the module beside the test binary (or where
// GPUPOOL_CUDA_MODULE says), opened once, with an allocator over its memory.
// NVIDIA's libraries are looked for in GPUPOOL_CUDA_LIB_DIR first.
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
  // Opens it at the first call. FAILED_PRECONDITION or NOT_FOUND where there
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

// gpupool_cuda's file; empty when it is not there.
std::string CudaModulePath();
// Folders of NVIDIA's libraries; may be empty.
std::string VendorLibraryDirs();

// Ends the process when the test at hand failed because a fault took the
// context: none after it could pass. tools/gpu_test.sh goes on with the next
// test in a new process.
void EndIfDeviceIsLost();

// Skips its tests, with the reason, where there is no GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override { EndIfDeviceIsLost(); }
  Gpu& gpu() { return *gpu_; }

 private:
  Gpu* gpu_ = nullptr;
};

}  // namespace gpupool::engine::testing
