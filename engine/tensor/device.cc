#include "engine/tensor/device.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"

namespace gpupool::engine {
namespace {

bool HasIndex(DeviceType type) {
  return type == DeviceType::kCpu || type == DeviceType::kCuda;
}

absl::Status BadDevice(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("device '", text, "': write cpu, cpu:N, cuda, cuda:N, mps ",
                   "or meta, with N from 0 to ", kMaxDeviceIndex));
}

}  // namespace

absl::string_view DeviceTypeName(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      return "cuda";
    case DeviceType::kMps:
      return "mps";
    case DeviceType::kMeta:
      return "meta";
  }
  return "unknown";
}

std::string ToString(const Device& device) {
  if (!HasIndex(device.type)) return std::string(DeviceTypeName(device.type));
  return absl::StrCat(DeviceTypeName(device.type), ":", device.index);
}

absl::StatusOr<Device> ParseDevice(absl::string_view text) {
  const size_t colon = text.find(':');
  const absl::string_view name = text.substr(0, colon);
  for (DeviceType type : {DeviceType::kCpu, DeviceType::kCuda, DeviceType::kMps,
                          DeviceType::kMeta}) {
    if (name != DeviceTypeName(type)) continue;
    if (colon == absl::string_view::npos) return Device{type, 0};
    if (!HasIndex(type)) return BadDevice(text);
    const absl::string_view digits = text.substr(colon + 1);
    int index = 0;
    // SimpleAtoi alone would accept signs and spaces.
    if (digits.empty() || !absl::ascii_isdigit(digits[0]) ||
        !absl::SimpleAtoi(digits, &index) || index > kMaxDeviceIndex) {
      return BadDevice(text);
    }
    return Device{type, index};
  }
  return BadDevice(text);
}

}  // namespace gpupool::engine
