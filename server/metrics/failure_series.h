// Private to server/metrics: the series of nv_inference_request_failure of one
// model version, one for each of Triton's reasons.
//
// Thread-safety: Count from any thread. The families must outlive it.
#pragma once

#include <prometheus/counter.h>

#include <array>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

struct MetricFamilies;

class FailureSeries {
 public:
  // Adds the series, at 0. Adds none, and counts nothing, if the families do
  // not show Triton's names.
  FailureSeries(MetricFamilies* families, const std::string& model,
                const std::string& version);

  // Counts a request that failed with `code`.
  void Count(absl::StatusCode code);
  // Removes the series. Call it last.
  void Remove();

  static constexpr size_t kReasons = 4;
  // Returns "REJECTED", the value of label reason.
  static absl::string_view ReasonOf(absl::StatusCode code);

 private:
  MetricFamilies* const families_;
  // In the order of the reasons; null without Triton's names.
  std::array<prometheus::Counter*, kReasons> counters_{};
};

}  // namespace gpupool::server
