#include "client/cli/mlflow/point_sender.h"

#include <gmock/gmock.h>

#include "gpupool/v1/job.pb.h"
#include "tests/client/testing/fake_tracking.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

class PointSenderTest : public ::testing::Test {
 protected:
  PointSenderTest()
      : server_({.url = *ParseTrackingUrl(fake_.url()), .timeout = kPatience}) {
    fake_.Give("experiments/get-by-name",
               {.body = R"({"experiment": {"experiment_id": "3"}})"});
    fake_.Give("runs/search",
               {.body = R"({"runs": [{"info": {"run_id": "r1"}}]})"});
    run_ = MlflowRun::Open(
        server_, v1::Job(), {.experiment = "x", .server = "y"},
        {.open = absl::ZeroDuration(), .send = absl::ZeroDuration()});
    EXPECT_TRUE(run_.ok()) << run_.status();
  }

  static MetricPoint Step(uint64_t step) { return {.key = "a", .step = step}; }

  // Returns the number of points of each call.
  std::vector<size_t> Sizes() const {
    std::vector<size_t> sizes;
    for (const auto& call : fake_.Of("runs/log-batch")) {
      sizes.push_back(call.body["metrics"].size());
    }
    return sizes;
  }

  FakeTracking fake_;
  TrackingServer server_;
  absl::StatusOr<MlflowRun> run_ = absl::UnknownError("not opened");
};

TEST_F(PointSenderTest, SendsFullCallsAndTheRestAtTheEnd) {
  fake_.Give("runs/log-batch", {});
  PointSender sender(*run_, absl::InfiniteDuration());
  for (uint64_t step = 1; step <= 2 * kMostMetricsPerCall + 5; ++step) {
    ASSERT_TRUE(sender.Add(Step(step)));
  }
  EXPECT_TRUE(sender.End().ok());
  EXPECT_THAT(Sizes(), ::testing::ElementsAre(kMostMetricsPerCall,
                                              kMostMetricsPerCall, 5));
  EXPECT_EQ(run_->count(), 2 * kMostMetricsPerCall + 5);
}

TEST_F(PointSenderTest, SendsAPointBeforeTheEnd) {
  fake_.Give("runs/log-batch", {});
  PointSender sender(*run_, absl::ZeroDuration());
  ASSERT_TRUE(sender.Add(Step(1)));
  EXPECT_TRUE(WaitUntil([&] { return fake_.Count("runs/log-batch") == 1; }));
  EXPECT_TRUE(sender.End().ok());
}

TEST_F(PointSenderTest, MakesNoCallWithoutPoints) {
  PointSender sender(*run_, absl::ZeroDuration());
  EXPECT_TRUE(sender.End().ok());
  EXPECT_EQ(fake_.Count("runs/log-batch"), 0u);
}

TEST_F(PointSenderTest, TakesNoPointsAfterACallThatFailed) {
  fake_.Give("runs/log-batch", {.status = 403});
  PointSender sender(*run_, absl::ZeroDuration());
  EXPECT_TRUE(WaitUntil(
      [&, step = uint64_t{0}]() mutable { return !sender.Add(Step(++step)); }));
  EXPECT_EQ(sender.End().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(sender.End().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace gpupool::client
