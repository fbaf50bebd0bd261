#include "engine/backends/cuda/driver/device_description.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/backends/cuda/cudnn/cudnn_plans_fixture.h"

namespace gpupool::engine::cuda {
namespace {

void SetName(cudaDeviceProp& properties, const std::string& name) {
  std::memcpy(properties.name, name.c_str(), name.size() + 1);
}

cudaDeviceProp H200() {
  cudaDeviceProp p = {};
  SetName(p, "NVIDIA H200");
  p.major = 9;
  p.totalGlobalMem = 150000000000;
  p.multiProcessorCount = 132;
  p.l2CacheSize = 62914560;
  const int grid[] = {2147483647, 65535, 65535}, block[] = {1024, 1024, 64};
  std::memcpy(p.maxGridSize, grid, sizeof(grid));
  std::memcpy(p.maxThreadsDim, block, sizeof(block));
  p.warpSize = 32;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.sharedMemPerBlock = 49152;
  p.sharedMemPerBlockOptin = 232448;
  p.reservedSharedMemPerBlock = 1024;
  p.maxBlocksPerMultiProcessor = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.cooperativeLaunch = 1;
  return p;
}

constexpr DeviceClocks kClocks{1980000, 3201000, 13000};

TEST(DeviceDescriptionTest, SaysWhatCudnnAsksFor) {
  EXPECT_EQ(nlohmann::json::parse(CudnnDescription(H200(), kClocks)),
            nlohmann::json::parse(kH200Description));
}

TEST(DeviceDescriptionTest, ANameMayHoldAnything) {
  cudaDeviceProp properties = H200();
  SetName(properties, "a \"b\\");
  const auto json = nlohmann::json::parse(CudnnDescription(properties, {}));
  EXPECT_EQ(json["deviceName"], "a \"b\\");
}

TEST(DeviceDescriptionTest, TheRealCudnnTakesIt) {
  const auto functions = FindCudnn(GPUPOOL_CUDA_LIBRARIES);
  if (!functions.ok()) GTEST_SKIP() << functions.status();
  PlanCache cache("");
  const auto library = CudnnLibrary::ForPlanning(
      *functions, CudnnDescription(H200(), kClocks), "H200", &cache);
  EXPECT_TRUE(library.ok()) << library.status();
}

}  // namespace
}  // namespace gpupool::engine::cuda
