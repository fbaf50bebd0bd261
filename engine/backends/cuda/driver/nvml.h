// NVIDIA's management library, loaded at run time with prototypes of our own:
// it comes with the driver, and nvml.h is not needed to build. Tells what
// nvidia-smi shows, and the driver's error reports (Xid events).
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

  // `library` is a name or path for the dynamic linker.
  //   NOT_FOUND            there is no such library
  //   FAILED_PRECONDITION  it lacks a function, or finds no driver
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(
      const std::string& library = "libnvidia-ml.so.1");
  // The one in the first of `folders` (separated by colons) that has one, else
  // where the dynamic linker looks.
  static absl::StatusOr<std::unique_ptr<Nvml>> OpenFrom(
      const std::string& folders);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // "580.159.03"; empty where the library does not say.
  const std::string& driver_version() const { return driver_version_; }

  // Between the GPUs with these uuids; empty for those that it does not know.
  DeviceLinks LinksBetween(const std::vector<std::string>& uuids) const;

  // Chooses the device to read. NOT_FOUND for an unknown one.
  absl::Status Watch(const std::string& uuid);
  // Of the watched device. Numbers that it does not tell are absent. An error
  // only when the device itself is suspect, of FaultClass::kQuarantine: it is
  // lost, the driver has reported an error that only a reset ends
  // (xid_catalog.h), or memory errors have come since Watch that were neither
  // corrected nor contained.
  absl::StatusOr<DeviceReadings> Read();

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  void ReadNumbers(DeviceReadings& readings) const;
  void ReadProcesses(DeviceReadings& readings) const;
  // Takes the events that came since the last call, without waiting.
  std::vector<uint32_t> TakeEvents();
  absl::Status CheckEvents(const std::vector<uint32_t>& codes) const;
  absl::Status CheckMemoryErrors(const DeviceReadings& readings,
                                 const std::vector<uint32_t>& codes);

  std::unique_ptr<Functions> functions_;
  std::string driver_version_;
  void* device_ = nullptr;
  void* events_ = nullptr;  // null where the device reports none
  std::deque<XidEvent> xid_events_;
  std::optional<uint64_t> known_memory_errors_;
};

}  // namespace gpupool::engine::cuda
