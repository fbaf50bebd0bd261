#include "engine/backends/cuda/driver/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/backends/cuda/driver/fault_class.h"

namespace gpupool::engine::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFakeNvml[] = GPUPOOL_FAKE_NVML;

// Sets a variable for the fake library during its lifetime.
class Asking {
 public:
  explicit Asking(const char* name) : name_(name) { setenv(name, "1", 1); }
  ~Asking() { unsetenv(name_); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  const char* const name_;
};

TEST(NvmlTest, AMachineWithoutTheLibraryIsNoError) {
  const auto nvml = Nvml::Open("libno-such-library.so.1");
  EXPECT_EQ(nvml.status().code(), absl::StatusCode::kNotFound);
}

TEST(NvmlTest, ALibraryWithoutItsFunctionsIsRefusedByName) {
  const auto nvml = Nvml::Open("libz.so.1");
  EXPECT_EQ(nvml.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(nvml.status().message()), HasSubstr("nvmlInit_v2"));
}

TEST(NvmlTest, SaysThatThereIsNoDriver) {
  const Asking no_driver("FAKE_NVML_NO_DRIVER");
  const auto nvml = Nvml::Open(kFakeNvml);
  EXPECT_EQ(nvml.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(nvml.status().message()),
              HasSubstr("Driver Not Loaded"));
}

TEST(NvmlTest, ReadsWhatTheManagementToolShows) {
  auto nvml = Nvml::Open(kFakeNvml);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->driver_version(), "580.0.1");
  ASSERT_TRUE((*nvml)->Watch("GPU-fake").ok());
  const auto readings = (*nvml)->Read();
  ASSERT_TRUE(readings.ok()) << readings.status();
  EXPECT_EQ(readings->utilization, 0.75);
  EXPECT_EQ(readings->memory_utilization, 0.3);
  EXPECT_EQ(readings->used_bytes, 400u);
  EXPECT_EQ(readings->temperature_celsius, 61);
  EXPECT_EQ(readings->power_watts, 351.5);
  EXPECT_EQ(readings->power_limit_watts, 700);
  EXPECT_EQ(readings->multiprocessor_clock_mhz, 1980u);
  EXPECT_EQ(readings->memory_clock_mhz, 3201u);
  EXPECT_EQ(readings->ecc_corrected, 5u);
  EXPECT_EQ(readings->ecc_uncorrected, 0u);
  ASSERT_EQ(readings->processes.size(), 2u);
  EXPECT_EQ(readings->processes[0].pid, 42u);
  EXPECT_EQ(readings->processes[0].bytes, 300u);
  EXPECT_EQ(readings->processes[1].bytes, 0u);  // the driver does not report it
}

TEST(NvmlTest, KeepsTheNewestErrorReports) {
  auto nvml = Nvml::Open(kFakeNvml);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  ASSERT_TRUE((*nvml)->Watch("GPU-fake").ok());
  // 20 reports, numbered from 200; a reading takes at most 16 of them.
  ASSERT_EQ((*nvml)->Read()->xid_events.size(), Nvml::kMaxXidEvents);
  const auto readings = (*nvml)->Read();
  ASSERT_EQ(readings->xid_events.size(), Nvml::kMaxXidEvents);
  EXPECT_EQ(readings->xid_events.front().code, 204u);
  EXPECT_EQ(readings->xid_events.back().code, 219u);
}

TEST(NvmlTest, WhatTheGpuDoesNotTellIsAbsent) {
  const Asking silent("FAKE_NVML_SILENT");
  auto nvml = Nvml::Open(kFakeNvml);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  ASSERT_TRUE((*nvml)->Watch("GPU-fake").ok());
  const auto readings = (*nvml)->Read();
  ASSERT_TRUE(readings.ok()) << readings.status();
  EXPECT_FALSE(readings->power_watts.has_value());
  EXPECT_TRUE(readings->xid_events.empty());
  EXPECT_TRUE(readings->temperature_celsius.has_value());
}

TEST(NvmlTest, ALostGpuIsAnError) {
  auto nvml = Nvml::Open(kFakeNvml);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  ASSERT_TRUE((*nvml)->Watch("GPU-fake").ok());
  const Asking lost("FAKE_NVML_LOST");
  const absl::Status status = (*nvml)->Read().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(FaultOf(status), FaultClass::kQuarantine);
}

TEST(NvmlTest, IsLookedForInTheFoldersFirst) {
  const auto nvml = Nvml::OpenFrom("/nowhere::" GPUPOOL_FAKE_NVML_DIR);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->driver_version(), "580.0.1");
}

TEST(NvmlTest, TellsHowGpusAreConnected) {
  const auto nvml = Nvml::Open(kFakeNvml);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_THAT((*nvml)->LinksBetween(
                  {"GPU-fake", "GPU-fake-1", "GPU-other", "GPU-fake-2"}),
              ElementsAre(ElementsAre("", "SYS", "", "SYS"),
                          ElementsAre("SYS", "", "", "NVL"),
                          ElementsAre("", "", "", ""),
                          ElementsAre("SYS", "NVL", "", "")));
  const Asking silent("FAKE_NVML_SILENT");
  EXPECT_THAT((*nvml)->LinksBetween({"GPU-fake-1", "GPU-fake-2"}),
              ElementsAre(ElementsAre("", ""), ElementsAre("", "")));
}

TEST(NvmlTest, UnknownGpusAreRefused) {
  auto nvml = Nvml::Open(kFakeNvml);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->Watch("GPU-other").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*nvml)->Read().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Returns the status of a reading after the GPU was read once without faults
// and the fake library then does what the file says.
absl::Status ReadAfter(const std::string& fault) {
  const ::testing::TestInfo& test =
      *::testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = ::testing::TempDir() + "/nvml_test_" + test.name() +
                           std::to_string(getpid());
  setenv("FAKE_NVML_FAULT_FILE", path.c_str(), 1);
  auto nvml = Nvml::Open(kFakeNvml);
  absl::Status status = nvml.status();
  if (status.ok()) status = (*nvml)->Watch("GPU-fake");
  // Two readings take the reports that the fake library always has.
  for (int i = 0; i < 2 && status.ok(); ++i) status = (*nvml)->Read().status();
  EXPECT_TRUE(status.ok()) << status;
  std::ofstream(path) << fault;
  if (status.ok()) status = (*nvml)->Read().status();
  unsetenv("FAKE_NVML_FAULT_FILE");
  std::remove(path.c_str());
  return status;
}

TEST(NvmlTest, AReportThatOnlyAResetEndsMakesTheGpuSuspect) {
  const absl::Status status = ReadAfter("xid 79");
  EXPECT_EQ(FaultOf(status), FaultClass::kQuarantine) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Xid 79: the GPU fell"));
}

TEST(NvmlTest, ReportsAboutApplicationsDoNot) {
  EXPECT_TRUE(ReadAfter("xid 31").ok());
  EXPECT_TRUE(ReadAfter("xid 9999").ok());
}

TEST(NvmlTest, NewUncorrectableMemoryErrorsMakeTheGpuSuspect) {
  const absl::Status status = ReadAfter("ecc 3");
  EXPECT_EQ(FaultOf(status), FaultClass::kQuarantine) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 uncorrectable"));
}

TEST(NvmlTest, ContainedMemoryErrorsDoNot) {
  EXPECT_TRUE(ReadAfter("ecc 3 xid 94").ok());
}

TEST(NvmlTest, AGpuThatNeedsAResetIsSuspect) {
  EXPECT_EQ(FaultOf(ReadAfter("memory 16")), FaultClass::kQuarantine);
}

}  // namespace
}  // namespace gpupool::engine::cuda
