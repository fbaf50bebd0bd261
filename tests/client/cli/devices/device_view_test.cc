#include "client/cli/devices/device_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Print(const v1::ListDevicesResponse& devices, bool wide) {
  std::ostringstream out;
  PrintDevices({.stream = &out}, devices, {.wide = wide});
  return out.str();
}

class DeviceViewTest : public ::testing::Test {
 protected:
  DeviceViewTest() {
    v1::Device& gpu = *devices_.add_devices();
    gpu.set_name("cuda:0");
    gpu.set_state(v1::DEVICE_READY);
    gpu.set_description("NVIDIA H200");
    gpu.mutable_gpu()->set_uuid("GPU-1");
    gpu.mutable_gpu()->set_pci_bus_id("0000:3b:00.0");
    gpu.mutable_gpu()->set_total_bytes(uint64_t{141} << 30);
    gpu.mutable_gpu()->set_driver_version("580.1");
  }
  v1::GpuReadings& readings() {
    return *devices_.mutable_devices(0)->mutable_readings();
  }

  v1::ListDevicesResponse devices_;
};

TEST_F(DeviceViewTest, CpuDevicesHaveNoColumnsOfGpus) {
  v1::ListDevicesResponse devices;
  devices.add_devices()->set_name("cpu:0");
  EXPECT_EQ(Print(devices, true),
            "DEVICE\tSTATE\tLIMIT\tCOMMITTED\tALLOCATED\tBUSY\tTHREADS\tJOBS\t"
            "MODELS\tDESCRIPTION\ncpu:0\tstate_unspecified\t0 B\t0 B\t0 B\t0%\t"
            "0\t-\t-\t-\n");
}

TEST_F(DeviceViewTest, ADeviceThatCoolsDownSaysUntilWhenAndWhy) {
  v1::ListDevicesResponse devices;
  v1::Device& device = *devices.add_devices();
  device.set_name("cpu:0");
  device.set_state(v1::DEVICE_READY);
  device.mutable_cools_until()->set_seconds(1000);
  device.set_consecutive_faults(2);
  device.set_last_fault("illegal address");
  const std::string text = Print(devices, false);
  EXPECT_THAT(text, HasSubstr("cpu:0\tcooling\t"));
  EXPECT_THAT(text, HasSubstr("cpu:0 starts no jobs until 1970-01-01T"));
  EXPECT_THAT(
      text, HasSubstr("after 2 consecutive faults, the last: illegal address"));
}

TEST_F(DeviceViewTest, AReservedDeviceSaysForWhomAndUntilWhen) {
  v1::ListDevicesResponse devices;
  v1::Device& device = *devices.add_devices();
  device.set_name("cpu:0");
  v1::DeviceReservation& first = *device.add_reservations();
  first.set_tenant("lab");
  first.set_active(true);
  first.mutable_end_time()->set_seconds(1000);
  v1::DeviceReservation& next = *device.add_reservations();
  next.set_tenant("shop");
  next.mutable_start_time()->set_seconds(5000);
  next.mutable_end_time()->set_seconds(6000);
  const std::string text = Print(devices, false);
  EXPECT_THAT(text, HasSubstr("cpu:0 is reserved for lab until 1970-01-01T"));
  EXPECT_THAT(text, HasSubstr(", then for shop from 1970-01-01T"));
}

TEST_F(DeviceViewTest, GpusShowWhatNvidiaSmiDoes) {
  readings().set_utilization(0.75);
  readings().set_memory_utilization(0.3);
  readings().set_used_bytes(uint64_t{70} << 30);
  readings().set_temperature_celsius(61);
  readings().set_power_watts(351.5);
  readings().set_power_limit_watts(700);
  readings().set_multiprocessor_clock_mhz(1980);
  readings().set_memory_clock_mhz(3201);
  readings().set_ecc_corrected(5);
  readings().set_ecc_uncorrected(0);
  readings().add_xid_events()->set_code(13);
  readings().add_xid_events()->set_code(79);
  v1::GpuProcess& process = *readings().add_processes();
  process.set_pid(42);
  process.set_bytes(uint64_t{1} << 30);
  readings().add_processes()->set_pid(43);
  EXPECT_THAT(
      Print(devices_, false),
      HasSubstr("\tGPU-UTIL\tGPU-MEMORY\tTEMP\tPOWER\tECC\tXID\tTHREADS"));
  EXPECT_THAT(Print(devices_, false),
              HasSubstr("\t75%\t70.0 GiB/141 GiB\t61 C\t352 W/700 W\t5/0\t79 "
                        "(of 2)\t0\t"));
  EXPECT_THAT(Print(devices_, false), Not(HasSubstr("MHz")));
  EXPECT_THAT(Print(devices_, true),
              HasSubstr("\t30%\t1980 MHz\t3201 MHz\t42:1.0 GiB,43\tGPU-1\t"
                        "0000:3b:00.0\t580.1\t"));
}

TEST_F(DeviceViewTest, WhatIsNotToldIsBlank) {
  EXPECT_THAT(Print(devices_, false),
              HasSubstr("\t-\t-/141 GiB\t-\t-\t-\t-\t0\t"));
  readings().set_power_limit_watts(700);
  readings().set_ecc_corrected(0);
  EXPECT_THAT(Print(devices_, false), HasSubstr("\t-/700 W\t0/-\t-\t"));
  // A CPU device in addition to the GPU.
  devices_.add_devices()->set_name("cpu:0");
  EXPECT_THAT(Print(devices_, false),
              HasSubstr("\t0%\t-\t-\t-\t-\t-\t-\t0\t-\t-\t-\n"));
}

TEST_F(DeviceViewTest, ALoweredMemoryFractionShowsBesideTheWholeLimit) {
  v1::Device& device = *devices_.mutable_devices(0);
  device.set_limit_bytes(uint64_t{2} << 30);
  device.set_memory_fraction(0.25);
  EXPECT_THAT(Print(devices_, false), HasSubstr("512 MiB of 2.0 GiB"));
  device.set_memory_fraction(1);
  EXPECT_THAT(Print(devices_, false), Not(HasSubstr(" of ")));
}

}  // namespace
}  // namespace gpupool::client
