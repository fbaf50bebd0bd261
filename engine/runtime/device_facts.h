// What a GPU is and how it does, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gpupool::engine {

// What does not change while the device is there.
struct DeviceFacts {
  std::string name;                // "NVIDIA H200"
  std::string uuid;                // "GPU-8f6e..."
  std::string pci_bus_id;          // "0000:3b:00.0"
  std::string compute_capability;  // "9.0"
  uint32_t multiprocessors = 0;
  uint32_t threads_per_multiprocessor = 0;  // that are resident at once
  uint64_t total_bytes = 0;
  std::string driver_version;  // "580.65.06"; may be empty
  std::string cuda_version;    // that the driver can run: "13.0"
  std::string libraries;  // of an open device: the vendor's, or why one is not
  // What else the module's planner needs to know, in a form of the module's.
  std::string properties;
};

// How each device is connected to each other one, by index, in the words of
// `nvidia-smi topo -m`: "NVL" NVLink, "PIX" one PCIe switch, "PXB" several,
// "PHB" a host bridge, "NODE" one NUMA node, "SYS" two. Empty where nobody
// tells, and between a device and itself.
using DeviceLinks = std::vector<std::vector<std::string>>;

struct DeviceProcess {
  uint32_t pid = 0;
  uint64_t bytes = 0;  // 0 where the driver does not tell
};

// An error report of the driver.
struct XidEvent {
  absl::Time time;
  uint32_t code = 0;
};

// What the driver's management library tells. An absent number is one that
// the device does not tell.
struct DeviceReadings {
  absl::Time time;
  std::optional<double> utilization;         // share of time, 0 .. 1
  std::optional<double> memory_utilization;  // the same for memory traffic
  std::optional<uint64_t> used_bytes;        // by all processes
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<uint32_t> multiprocessor_clock_mhz;
  std::optional<uint32_t> memory_clock_mhz;
  std::optional<uint64_t> ecc_corrected;  // since the driver started
  std::optional<uint64_t> ecc_uncorrected;
  std::vector<DeviceProcess> processes;
  std::vector<XidEvent> xid_events;  // the newest, in order of time
};

}  // namespace gpupool::engine
