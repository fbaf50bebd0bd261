#include "server/metrics/gpu_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLabels[] =
    "{UUID=\"GPU-1\",device=\"cuda:3\",gpu=\"3\",modelName=\"NVIDIA H200\","
    "pci_bus_id=\"0000:3b:00.0\"}";

class GpuSeriesTest : public ::testing::Test {
 protected:
  GpuSeriesTest() {
    gpu_.set_name("cuda:3");
    gpu_.set_description("NVIDIA H200");
    gpu_.mutable_gpu()->set_uuid("GPU-1");
    gpu_.mutable_gpu()->set_pci_bus_id("0000:3b:00.0");
    gpu_.mutable_gpu()->set_total_bytes(uint64_t{3} << 30);
  }
  std::string Text() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  std::string Line(const std::string& name, const std::string& value) const {
    return name + kLabels + " " + value + "\n";
  }

  prometheus::Registry registry_;
  GpuSeries series_{&registry_};
  v1::Device gpu_;
};

TEST_F(GpuSeriesTest, NothingIsRegisteredBeforeThereIsAGpu) {
  EXPECT_EQ(Text(), "");
  series_.Clear("cuda:3");
  EXPECT_EQ(Text(), "");
}

TEST_F(GpuSeriesTest, NumbersHaveTheUnitsOfTheExporter) {
  v1::GpuReadings& readings = *gpu_.mutable_readings();
  readings.set_utilization(0.75);
  readings.set_memory_utilization(0.5);
  readings.set_used_bytes(uint64_t{1} << 30);
  readings.set_temperature_celsius(61);
  readings.set_power_watts(351.5);
  readings.set_power_limit_watts(700);
  readings.set_multiprocessor_clock_mhz(1980);
  readings.set_memory_clock_mhz(3201);
  readings.set_ecc_corrected(5);
  readings.set_ecc_uncorrected(0);
  readings.add_xid_events()->set_code(13);
  readings.add_xid_events()->set_code(79);
  series_.Set(gpu_);
  const std::string text = Text();
  const std::pair<const char*, const char*> lines[] = {
      {"DCGM_FI_DEV_GPU_UTIL", "75"},
      {"DCGM_FI_DEV_MEM_COPY_UTIL", "50"},
      {"DCGM_FI_DEV_FB_USED", "1024"},
      {"DCGM_FI_DEV_FB_FREE", "2048"},
      {"DCGM_FI_DEV_GPU_TEMP", "61"},
      {"DCGM_FI_DEV_POWER_USAGE", "351.5"},
      {"DCGM_FI_DEV_POWER_MGMT_LIMIT", "700"},
      {"DCGM_FI_DEV_SM_CLOCK", "1980"},
      {"DCGM_FI_DEV_MEM_CLOCK", "3201"},
      {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "5"},
      {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "0"},
      {"DCGM_FI_DEV_XID_ERRORS", "79"}};
  for (const auto& [name, value] : lines) {
    EXPECT_THAT(text, HasSubstr(Line(name, value)));
  }
}

TEST_F(GpuSeriesTest, WhatIsNotToldHasNoSeries) {
  gpu_.mutable_readings()->set_power_watts(100);
  series_.Set(gpu_);
  EXPECT_THAT(Text(), HasSubstr(Line("DCGM_FI_DEV_POWER_USAGE", "100")));
  EXPECT_THAT(Text(), Not(HasSubstr("DCGM_FI_DEV_GPU_TEMP{")));
  EXPECT_THAT(Text(), HasSubstr(Line("DCGM_FI_DEV_XID_ERRORS", "0")));
  gpu_.mutable_readings()->clear_power_watts();
  series_.Set(gpu_);
  EXPECT_THAT(Text(), Not(HasSubstr("DCGM_FI_DEV_POWER_USAGE{")));
}

TEST_F(GpuSeriesTest, ADeviceThatIsGoneHasNoSeries) {
  gpu_.mutable_readings()->set_power_watts(100);
  series_.Set(gpu_);
  gpu_.mutable_gpu()->set_uuid("GPU-2");  // another GPU in its place
  series_.Set(gpu_);
  EXPECT_THAT(Text(), Not(HasSubstr("GPU-1")));
  EXPECT_THAT(Text(), HasSubstr("GPU-2"));
  series_.Clear("cuda:3");
  EXPECT_THAT(Text(), Not(HasSubstr("GPU-2")));
}

}  // namespace
}  // namespace gpupool::server
