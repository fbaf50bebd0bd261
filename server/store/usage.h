// Usage of one hour as the store sums it up (proto/gpupool/v1/usage.proto
// explains each sum).
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>

#include "gpupool/v1/usage.pb.h"

namespace gpupool::server {

struct UsageKey {
  int64_t hour = 0;  // hours since the epoch
  std::string tenant;
  std::string model;
  std::string device_kind;
  v1::UsageActivity activity = v1::TRAINING;
  uint64_t job = 0;  // 0: jobs that are not kept
  friend auto operator<=>(const UsageKey&, const UsageKey&) = default;
};

struct UsageSums {
  double device_seconds = 0;
  double byte_seconds = 0;
  double joules = 0;
  double metered_seconds = 0;

  UsageSums& operator+=(const UsageSums& more) {
    device_seconds += more.device_seconds;
    byte_seconds += more.byte_seconds;
    joules += more.joules;
    metered_seconds += more.metered_seconds;
    return *this;
  }
};

}  // namespace gpupool::server
