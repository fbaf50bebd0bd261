#include "server/metrics/triton_gpu_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TritonGpuSeriesTest : public ::testing::Test {
 protected:
  TritonGpuSeriesTest() {
    gpu_.set_name("cuda:3");
    gpu_.mutable_gpu()->set_uuid("GPU-1");
    gpu_.mutable_gpu()->set_total_bytes(3000);
  }
  std::string Text() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  static std::string Line(const std::string& name, const std::string& value) {
    return name + "{gpu_uuid=\"GPU-1\"} " + value + "\n";
  }

  prometheus::Registry registry_;
  TritonGpuSeries series_{&registry_};
  v1::Device gpu_;
};

TEST_F(TritonGpuSeriesTest, NothingIsRegisteredBeforeThereIsAGpu) {
  series_.Clear("cuda:3");
  EXPECT_EQ(Text(), "");
}

TEST_F(TritonGpuSeriesTest, NumbersHaveTritonsUnits) {
  v1::GpuReadings& readings = *gpu_.mutable_readings();
  readings.set_utilization(0.75);
  readings.set_used_bytes(1000);
  readings.set_power_watts(351.5);
  readings.set_power_limit_watts(700);
  readings.set_energy_joules(42);
  series_.Set(gpu_);
  const std::pair<const char*, const char*> lines[] = {
      {"nv_gpu_utilization", "0.75"},
      {"nv_gpu_memory_total_bytes", "3000"},
      {"nv_gpu_memory_used_bytes", "1000"},
      {"nv_gpu_power_usage", "351.5"},
      {"nv_gpu_power_limit", "700"},
      {"nv_energy_consumption", "42"}};
  for (const auto& [name, value] : lines) {
    EXPECT_THAT(Text(), HasSubstr(Line(name, value)));
  }
  EXPECT_THAT(Text(), HasSubstr("# TYPE nv_energy_consumption counter"));
}

TEST_F(TritonGpuSeriesTest, EnergyNeverFalls) {
  gpu_.mutable_readings()->set_energy_joules(10);
  series_.Set(gpu_);
  gpu_.mutable_readings()->set_energy_joules(12.5);
  series_.Set(gpu_);
  EXPECT_THAT(Text(), HasSubstr(Line("nv_energy_consumption", "12.5")));
  gpu_.mutable_readings()->set_energy_joules(3);
  series_.Set(gpu_);
  gpu_.mutable_readings()->clear_energy_joules();
  series_.Set(gpu_);
  EXPECT_THAT(Text(), HasSubstr(Line("nv_energy_consumption", "12.5")));
}

TEST_F(TritonGpuSeriesTest, WhatIsNotToldHasNoSeries) {
  gpu_.mutable_gpu()->clear_total_bytes();
  gpu_.mutable_readings()->set_power_watts(100);
  series_.Set(gpu_);
  EXPECT_THAT(Text(), HasSubstr(Line("nv_gpu_power_usage", "100")));
  for (const char* name : {"nv_gpu_utilization{", "nv_gpu_memory_total_bytes{",
                           "nv_energy_consumption{"}) {
    EXPECT_THAT(Text(), Not(HasSubstr(name)));
  }
  gpu_.mutable_readings()->clear_power_watts();
  series_.Set(gpu_);
  EXPECT_THAT(Text(), Not(HasSubstr("nv_gpu_power_usage{")));
}

TEST_F(TritonGpuSeriesTest, ADeviceThatIsGoneHasNoSeries) {
  gpu_.mutable_readings()->set_power_watts(100);
  gpu_.mutable_readings()->set_energy_joules(5);
  series_.Set(gpu_);
  gpu_.mutable_gpu()->set_uuid("GPU-2");  // another GPU in its place
  series_.Set(gpu_);
  EXPECT_THAT(Text(), Not(HasSubstr("GPU-1")));
  EXPECT_THAT(Text(), HasSubstr("nv_energy_consumption{gpu_uuid=\"GPU-2\"} 5"));
  series_.Clear("cuda:3");
  EXPECT_THAT(Text(), Not(HasSubstr("GPU-2")));
}

}  // namespace
}  // namespace gpupool::server
