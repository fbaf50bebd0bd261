#include "engine/cuda_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

const CudaOptions kStandin = {.module_dirs = {GPUPOOL_STANDIN_DIR}};

TEST(CudaDevicesTest, ListsWhatTheModuleDescribes) {
  const auto devices = ListCudaDevices(kStandin);
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ(devices->at(1).name, "Stand-in, CPU kernels");
}

TEST(CudaDevicesTest, NoModuleNamesTheFolders) {
  const auto devices = ListCudaDevices({.module_dirs = {"/nowhere", "/else"}});
  EXPECT_TRUE(absl::IsNotFound(devices.status()));
  EXPECT_THAT(Message(devices.status()), HasSubstr("/nowhere or /else"));
  // By default the module is looked for beside this program.
  const auto own = OpenCudaDevice(0, {});
  if (absl::IsNotFound(own.status())) {
    EXPECT_THAT(Message(own.status()), HasSubstr("/tests"));
  }
}

TEST(CudaDevicesTest, NoDriverIsSaid) {
  ::setenv("GPUPOOL_STANDIN", "none", 1);
  const auto devices = ListCudaDevices(kStandin);
  const auto opened = OpenCudaDevice(0, kStandin);
  ::unsetenv("GPUPOOL_STANDIN");
  EXPECT_TRUE(absl::IsFailedPrecondition(devices.status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(opened.status()));
  EXPECT_THAT(Message(opened.status()), HasSubstr("driver"));
}

TEST(CudaDevicesTest, AWrongIndexSaysHowManyThereAre) {
  const auto opened = OpenCudaDevice(3, kStandin);
  EXPECT_TRUE(absl::IsNotFound(opened.status()));
  EXPECT_THAT(Message(opened.status()), HasSubstr("shows 3"));
}

TEST(CudaDevicesTest, TheModuleSaysWhatItWasBuiltFor) {
  const auto built = ListCudaArchitectures(kStandin);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(ToText(*built), "9.0, and 9.0 as PTX");
  EXPECT_TRUE(absl::IsNotFound(
      ListCudaArchitectures({.module_dirs = {"/nowhere"}}).status()));
}

TEST(CudaDevicesTest, AGpuWithoutKernelsIsRefusedAndTheOthersAreNot) {
  ::setenv("GPUPOOL_STANDIN", "old", 1);
  const auto old = OpenCudaDevice(1, kStandin);
  const auto other = OpenCudaDevice(2, kStandin);
  ::unsetenv("GPUPOOL_STANDIN");
  EXPECT_TRUE(absl::IsFailedPrecondition(old.status()));
  EXPECT_THAT(Message(old.status()),
              HasSubstr("Stand-in, CPU kernels has compute capability 7.5"));
  EXPECT_THAT(Message(old.status()),
              HasSubstr("-DGPUPOOL_CUDA_ARCHITECTURES=75"));
  EXPECT_TRUE(other.ok()) << other.status();
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(CudaDevicesTest, OneContextKeepsItsShareOfTheMemory) {
  // 3/64 for the context and 1/256 for captured runs.
  EXPECT_EQ(UsableBytes({.total_bytes = 16384 * kMiB}),
            (16384 - 768 - 64) * kMiB);
  // Both shares have an upper limit.
  EXPECT_EQ(UsableBytes({.total_bytes = 140 * 1024 * kMiB}),
            (140 * 1024 - 1536 - 256) * kMiB);
  EXPECT_EQ(UsableBytes({.total_bytes = 0}), 0u);
}

TEST(CudaDevicesTest, CapturedRunsFitBesideAFullAllocator) {
  for (uint64_t total = 512 * kMiB; total < 300 * 1024 * kMiB; total *= 2) {
    const uint64_t left = total - UsableBytes({.total_bytes = total});
    EXPECT_GE(left, RecordingBytes(total) + std::min(total / 32, 512 * kMiB))
        << total;
  }
}

}  // namespace
}  // namespace gpupool::engine
