#include "engine/cuda_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gpupool::engine {
namespace {

using testing::HasSubstr;

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
  // By default those of this program.
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

TEST(CudaDevicesTest, ContextsKeepTheirShareOfTheMemory) {
  EXPECT_EQ(UsableBytes({.total_bytes = uint64_t{16} << 30}),
            uint64_t{15} << 30);
  EXPECT_EQ(UsableBytes({.total_bytes = uint64_t{140} << 30}),
            uint64_t{138} << 30);
  EXPECT_EQ(UsableBytes({.total_bytes = 0}), 0u);
}

}  // namespace
}  // namespace gpupool::engine
