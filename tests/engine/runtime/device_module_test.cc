#include "engine/runtime/device_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/runtime/module_build_id.h"
#include "tests/test_paths.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kFake[] = GPUPOOL_FAKE_MODULE;

TEST(DeviceModuleTest, AModuleOfThisBuildIsLoaded) {
  setenv("GPUPOOL_FAKE_MODULE", ModuleBuildId(), 1);
  const auto module = LoadDeviceModule(kFake);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(*(*module)->CountDevices(), 3);
  EXPECT_EQ((*module)->Describe(0)->name, "a device of the test");
  EXPECT_EQ(ToText((*module)->Architectures()), "9.0, and 9.0 as PTX");
}

TEST(DeviceModuleTest, AModuleOfAnotherBuildIsRefused) {
  setenv("GPUPOOL_FAKE_MODULE", "another build", 1);
  const auto module = LoadDeviceModule(kFake);
  EXPECT_EQ(module.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(module.status().message()),
              HasSubstr("another build"));
  setenv("GPUPOOL_FAKE_MODULE", "empty", 1);
  EXPECT_EQ(LoadDeviceModule(kFake).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(DeviceModuleTest, WhatIsNoModuleIsRefusedByName) {
  EXPECT_EQ(LoadDeviceModule("/nowhere/libgpupool_cuda.so").status().code(),
            absl::StatusCode::kNotFound);
  const auto text = LoadDeviceModule(SourcePath("README.md"));
  EXPECT_EQ(text.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("README.md"));
}

TEST(DeviceModuleTest, TheModuleIsLookedForInEveryFolder) {
  const auto none = FindCudaModule({"/nowhere/lib", "/nowhere/bin"});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr("/nowhere/lib"), HasSubstr("/nowhere/bin")));
}

// Opens the real module, if it was built, as a worker does first.
TEST(DeviceModuleTest, TheCudaModuleSaysWhetherThereIsAGpu) {
  const auto path = FindCudaModule({BinaryPath("../lib")});
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  const auto module = LoadDeviceModule(*path);
  ASSERT_TRUE(module.ok()) << module.status();
  const auto count = (*module)->CountDevices();
  if (count.ok()) {
    EXPECT_EQ((*module)->Open({.index = *count}).status().code(),
              absl::StatusCode::kNotFound);
    return;
  }
  EXPECT_EQ(count.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(count.status().message()), HasSubstr("driver"));
  EXPECT_EQ((*module)->Open({.index = 0}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace gpupool::engine
