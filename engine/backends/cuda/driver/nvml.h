// Reads NVIDIA's management library: the figures of nvidia-smi and the driver's
// error reports (Xid events). It comes with the driver and is loaded at run
// time with our own prototypes, so nvml.h is not needed to build.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::engine::cuda {

class Nvml {
 public:
  static constexpr size_t kMaxXidEvents = 16;

  // Opens the library. `library` is a name or path for the dynamic linker.
  //   NOT_FOUND            there is no such library
  //   FAILED_PRECONDITION  it lacks a function, or finds no driver
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(
      const std::string& library = "libnvidia-ml.so.1");
  // Opens the library in the first of `folders` (separated by colons) that has
  // it, else where the dynamic linker looks.
  static absl::StatusOr<std::unique_ptr<Nvml>> OpenFrom(
      const std::string& folders);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Returns the version as in "580.159.03", or an empty text when unknown.
  const std::string& driver_version() const { return driver_version_; }

  // Returns the links between the GPUs with these uuids. Unknown GPUs have
  // none.
  DeviceLinks LinksBetween(const std::vector<std::string>& uuids) const;

  // Chooses the device to read. NOT_FOUND for an unknown uuid.
  absl::Status Watch(const std::string& uuid);
  // Returns the readings of the watched device. Numbers that it does not tell
  // are absent. Returns an error of FaultClass::kQuarantine when the device is
  // suspect, and no other error:
  // - The device is lost.
  // - The driver reported an error that only a reset ends (xid_catalog.h).
  // - Since Watch, there were memory errors that were neither corrected nor
  //   contained.
  absl::StatusOr<DeviceReadings> Read();

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  void ReadNumbers(DeviceReadings& readings) const;
  void ReadProcesses(DeviceReadings& readings) const;
  // Takes the events since the last call, without waiting.
  std::vector<uint32_t> TakeEvents();
  absl::Status CheckEvents(const std::vector<uint32_t>& codes) const;
  absl::Status CheckMemoryErrors(const DeviceReadings& readings,
                                 const std::vector<uint32_t>& codes);

  std::unique_ptr<Functions> functions_;
  std::string driver_version_;
  void* device_ = nullptr;
  void* events_ = nullptr;  // null when the device reports none
  std::deque<XidEvent> xid_events_;
  std::optional<uint64_t> known_memory_errors_;
};

}  // namespace gpupool::engine::cuda
