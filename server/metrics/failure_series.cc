#include "server/metrics/failure_series.h"

#include <iterator>

#include "server/metrics/families.h"

namespace gpupool::server {
namespace {

constexpr absl::string_view kFailureReasons[] = {"REJECTED", "CANCELED",
                                                 "BACKEND", "OTHER"};
static_assert(std::size(kFailureReasons) == FailureSeries::kReasons);

size_t ReasonIndex(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:  // a full queue, or no worker
      return 0;
    case absl::StatusCode::kCancelled:
      return 1;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

absl::string_view FailureSeries::ReasonOf(absl::StatusCode code) {
  return kFailureReasons[ReasonIndex(code)];
}

FailureSeries::FailureSeries(MetricFamilies* families, const std::string& model,
                             const std::string& version)
    : families_(families) {
  if (!families_->Shows(CounterName::kTritonFailures)) return;
  for (size_t i = 0; i < kReasons; ++i) {
    counters_[i] = &families_->Series(CounterName::kTritonFailures,
                                      {model, version, kFailureReasons[i]});
  }
}

void FailureSeries::Count(absl::StatusCode code) {
  prometheus::Counter* const counter = counters_[ReasonIndex(code)];
  if (counter != nullptr) counter->Increment();
}

void FailureSeries::Remove() {
  for (prometheus::Counter* counter : counters_) {
    if (counter == nullptr) continue;
    families_->Remove(CounterName::kTritonFailures, counter);
  }
}

}  // namespace gpupool::server
