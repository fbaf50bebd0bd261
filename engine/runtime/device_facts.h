// Facts and readings of a GPU, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gpupool::engine {

// Facts that do not change while the device exists.
struct DeviceFacts {
  std::string name;                // "NVIDIA H200"
  std::string uuid;                // "GPU-8f6e..."
  std::string pci_bus_id;          // "0000:3b:00.0"
  std::string compute_capability;  // "9.0"
  uint32_t multiprocessors = 0;
  uint32_t threads_per_multiprocessor = 0;  // threads that are resident at once
  uint64_t total_bytes = 0;
  std::string driver_version;  // "580.65.06"; may be empty
  std::string cuda_version;    // latest version that the driver can run: "13.0"
  // The vendor's libraries of an open device, or why one is missing.
  std::string libraries;
  // Other facts for the module's planner, in a format of the module.
  std::string properties;
  // The highest clocks, and the width of the memory bus; 0 when the driver does
  // not tell.
  uint32_t clock_khz = 0;
  uint32_t memory_clock_khz = 0;
  uint32_t memory_bus_bits = 0;
};

// The connection between each two devices, by index, in the words of
// `nvidia-smi topo -m`: "NVL" NVLink, "PIX" one PCIe switch, "PXB" several,
// "PHB" a host bridge, "NODE" one NUMA node, "SYS" two. Empty when it is
// unknown, and between a device and itself.
using DeviceLinks = std::vector<std::vector<std::string>>;

struct DeviceProcess {
  uint32_t pid = 0;
  uint64_t bytes = 0;  // 0 when the driver does not tell
};

// An error report of the driver.
struct XidEvent {
  absl::Time time;
  uint32_t code = 0;
};

// Readings of the driver's management library. Numbers that the device does not
// provide are absent.
struct DeviceReadings {
  absl::Time time;
  std::optional<double> utilization;  // share of time, 0 .. 1
  std::optional<double>
      memory_utilization;              // share of time with memory traffic
  std::optional<uint64_t> used_bytes;  // by all processes
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<uint32_t> multiprocessor_clock_mhz;
  std::optional<uint32_t> memory_clock_mhz;
  std::optional<uint64_t> ecc_corrected;  // since the driver started
  std::optional<uint64_t> ecc_uncorrected;
  std::vector<DeviceProcess> processes;
  std::vector<XidEvent> xid_events;  // the newest ones, in order of time
};

}  // namespace gpupool::engine
