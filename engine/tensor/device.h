// Names of devices: "cpu", "cpu:1", "cuda:0", "mps", "meta".
// Plain values; safe to share between threads.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine {

enum class DeviceType {
  kCpu,
  kCuda,
  kMps,   // a legal name; no back end is built here
  kMeta,  // shapes and byte counts, no storage
};

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

// Returns "cpu", "cuda", "mps" or "meta". The text is never freed.
absl::string_view DeviceTypeName(DeviceType type);

// Returns "cuda:0"; "meta" and "mps" have no index.
std::string ToString(const Device& device);

// Parses what ToString writes; "cpu" and "cuda" alone mean index 0. Case
// matters. INVALID_ARGUMENT names the text and the legal forms.
absl::StatusOr<Device> ParseDevice(absl::string_view text);

}  // namespace gpupool::engine
