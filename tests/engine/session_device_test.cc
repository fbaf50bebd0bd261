#include "engine/session_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/cuda_devices.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<ModuleDevice> Standin(
    const std::string& vendor_library_dirs = "") {
  auto device = OpenCudaDevice(0, {.module_dirs = {GPUPOOL_STANDIN_DIR},
                                   .vendor_library_dirs = vendor_library_dirs});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

TEST(SessionDeviceTest, TheHostHasTheMachinesMemoryUnlessToldOtherwise) {
  const auto all = SessionDevice::OfHost("cpu:0", 0, 1);
  EXPECT_GT(all->limit_bytes(), 0u);
  EXPECT_EQ(all->facts(), nullptr);
  EXPECT_TRUE(absl::IsUnimplemented(all->Read().status()));
  EXPECT_TRUE(all->backend().transfer().host_visible());
  const auto some = SessionDevice::OfHost("cpu:0", 1 << 20, 1);
  EXPECT_EQ(some->limit_bytes(), 1u << 20);
  EXPECT_EQ(some->allocator().Statistics().limit_bytes, 1u << 20);
}

TEST(SessionDeviceTest, AGpuHasItsOwnMemoryAndName) {
  const auto device = SessionDevice::OfModule("cuda:0", 0, Standin());
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->limit_bytes(), UsableBytes(*(*device)->facts()));
  EXPECT_EQ((*device)->description(), "Stand-in, portable kernels");
  EXPECT_EQ((*device)->allocator().device(), "cuda:0");
  EXPECT_FALSE((*device)->backend().transfer().host_visible());
  EXPECT_TRUE((*device)->MakeCurrent().ok());
}

TEST(SessionDeviceTest, ALimitAboveTheGpusMemoryIsRefused) {
  const auto device =
      SessionDevice::OfModule("cuda:0", uint64_t{4} << 30, Standin());
  EXPECT_TRUE(absl::IsInvalidArgument(device.status()));
  EXPECT_THAT(std::string(device.status().message()),
              HasSubstr("4294967296, of which 4076863488 can be used"));
}

TEST(SessionDeviceTest, ReadingsComeFromTheManagementLibraryInTheFolder) {
  const auto blind = SessionDevice::OfModule("cuda:0", 0, Standin());
  EXPECT_TRUE(absl::IsUnimplemented((*blind)->Read().status()));
  const auto device = SessionDevice::OfModule(
      "cuda:0", 0, Standin("/nowhere:" GPUPOOL_FAKE_NVML_DIR));
  const auto readings = (*device)->Read();
  ASSERT_TRUE(readings.ok()) << readings.status();
  EXPECT_EQ(readings->temperature_celsius, 61);
  EXPECT_EQ((*device)->facts()->driver_version, "580.0.1");
}

using SessionDeviceDeathTest = ::testing::Test;

TEST_F(SessionDeviceDeathTest, TheStandinsMemoryIsOutOfTheHostsReach) {
  const auto device = SessionDevice::OfModule("cuda:0", 0, Standin());
  auto block = (*device)->allocator().Allocate(64, {"job 1", "weights"});
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_DEATH((void)*const_cast<volatile std::byte*>(block->data()), "");
}

}  // namespace
}  // namespace gpupool::engine
