#include "server/metrics/failure_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "server/metrics/families.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const MetricFamilies& families) {
  return prometheus::TextSerializer().Serialize(families.registry->Collect());
}

std::string FailureLine(const std::string& reason, const std::string& value) {
  return "nv_inference_request_failure{model=\"digits\",reason=\"" + reason +
         "\",version=\"3\"} " + value + "\n";
}

TEST(FailureSeriesTest, EveryReasonStartsAtZeroAndEndsWithTheVersion) {
  MetricFamilies families;
  FailureSeries series(&families, "digits", "3");
  for (const char* reason : {"REJECTED", "CANCELED", "BACKEND", "OTHER"}) {
    EXPECT_THAT(TextOf(families), HasSubstr(FailureLine(reason, "0")));
  }
  series.Count(absl::StatusCode::kDeadlineExceeded);
  series.Count(absl::StatusCode::kResourceExhausted);
  series.Count(absl::StatusCode::kCancelled);
  EXPECT_THAT(TextOf(families), HasSubstr(FailureLine("REJECTED", "2")));
  EXPECT_THAT(TextOf(families), HasSubstr(FailureLine("CANCELED", "1")));
  EXPECT_THAT(TextOf(families), HasSubstr(FailureLine("BACKEND", "0")));
  series.Remove();
  EXPECT_THAT(TextOf(families), Not(HasSubstr("digits")));
}

TEST(FailureSeriesTest, EveryCodeHasOneOfFourReasons) {
  const std::pair<absl::StatusCode, const char*> reasons[] = {
      {absl::StatusCode::kResourceExhausted, "REJECTED"},
      {absl::StatusCode::kDeadlineExceeded, "REJECTED"},
      {absl::StatusCode::kCancelled, "CANCELED"},
      {absl::StatusCode::kUnavailable, "REJECTED"},
      {absl::StatusCode::kInternal, "BACKEND"},
      {absl::StatusCode::kDataLoss, "BACKEND"},
      {absl::StatusCode::kAborted, "BACKEND"},
      {absl::StatusCode::kInvalidArgument, "OTHER"},
      {static_cast<absl::StatusCode>(99), "OTHER"}};
  for (const auto& [code, reason] : reasons) {
    EXPECT_EQ(FailureSeries::ReasonOf(code), reason);
  }
}

TEST(FailureSeriesTest, WithoutTritonsNamesItHasNoSeries) {
  MetricFamilies families({.triton_names = false});
  FailureSeries series(&families, "digits", "3");
  series.Count(absl::StatusCode::kCancelled);
  EXPECT_THAT(TextOf(families), Not(HasSubstr("nv_")));
  series.Remove();
}

}  // namespace
}  // namespace gpupool::server
