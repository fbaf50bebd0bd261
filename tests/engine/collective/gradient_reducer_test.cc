#include "engine/collective/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two ranks that always hold the same numbers; writes down what was asked.
class TwinCollective : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::StatusOr<CollectiveTicket> StartAllReduce(
      absl::Span<float> values) override {
    if (!failure_.ok()) return failure_;
    started_.push_back(values.size());
    for (float& value : values) value *= 2;
    return started_.size();
  }
  CollectiveTicket newest() const override { return started_.size(); }
  absl::Status Wait(CollectiveTicket) override { return failure_; }
  absl::Status Broadcast(absl::Span<std::byte>, int) override {
    return absl::OkStatus();
  }
  absl::Status AllGather(absl::Span<const std::byte>,
                         absl::Span<std::byte>) override {
    return absl::OkStatus();
  }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void Abort(absl::string_view reason) override {
    failure_ = absl::AbortedError(reason);
  }

  const std::vector<size_t>& started() const { return started_; }

 private:
  std::vector<size_t> started_;
  absl::Status failure_;
};

// Buckets: parameters 2 and 1 (of 1 and 2 elements), then 0 (of 3).
class GradientReducerTest : public ::testing::Test {
 protected:
  TwinCollective twin_;
  GradientReducer reducer_{
      *GradientBuckets::Plan({3, 2, 1}, ReverseOrder(3),
                             {.first_bytes = 12, .other_bytes = 12}),
      &twin_};
};

TEST_F(GradientReducerTest, ABucketLeavesWithItsLastGradient) {
  ASSERT_TRUE(reducer_.Give(2, {1}).ok());
  EXPECT_THAT(twin_.started(), ElementsAre());
  ASSERT_TRUE(reducer_.Give(1, {2, 3}).ok());
  EXPECT_THAT(twin_.started(), ElementsAre(3));
  ASSERT_TRUE(reducer_.Give(0, {4, 5, 6}).ok());
  EXPECT_THAT(twin_.started(), ElementsAre(3, 3));
  ASSERT_TRUE(reducer_.Finish().ok());
  // Twice the number, divided by two ranks.
  EXPECT_THAT(reducer_.gradient(0), ElementsAre(4, 5, 6));
  EXPECT_THAT(reducer_.gradient(1), ElementsAre(2, 3));
  EXPECT_THAT(reducer_.gradient(2), ElementsAre(1));
}

TEST_F(GradientReducerTest, BucketsStartInTheirOrderWhateverComesFirst) {
  ASSERT_TRUE(reducer_.Give(0, {4, 5, 6}).ok());
  ASSERT_TRUE(reducer_.Give(1, {2, 3}).ok());
  EXPECT_THAT(twin_.started(), ElementsAre());
  ASSERT_TRUE(reducer_.Give(2, {1}).ok());
  EXPECT_EQ(twin_.started().size(), 2u);
}

TEST_F(GradientReducerTest, StepsFollowEachOther) {
  for (float step = 1; step < 4; ++step) {
    for (int i = 2; i >= 0; --i) {
      const std::vector<float> gradient(static_cast<size_t>(3 - i), step);
      ASSERT_TRUE(reducer_.Give(i, gradient).ok());
    }
    ASSERT_TRUE(reducer_.Finish().ok());
    EXPECT_THAT(reducer_.gradient(1), ElementsAre(step, step));
  }
  EXPECT_EQ(twin_.started().size(), 6u);
}

TEST_F(GradientReducerTest, RefusesTwiceUnknownAndOtherSizes) {
  ASSERT_TRUE(reducer_.Give(2, {1}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(reducer_.Give(2, {1})));
  EXPECT_TRUE(absl::IsInvalidArgument(reducer_.Give(1, {1})));
  EXPECT_TRUE(absl::IsInvalidArgument(reducer_.Give(3, {1})));
  EXPECT_TRUE(absl::IsInvalidArgument(reducer_.Give(-1, {1})));
  const absl::Status early = reducer_.Finish();
  EXPECT_TRUE(absl::IsFailedPrecondition(early));
  EXPECT_THAT(std::string(early.message()), HasSubstr("parameter 0"));
}

TEST_F(GradientReducerTest, ALostRankEndsTheStep) {
  ASSERT_TRUE(reducer_.Give(2, {1}).ok());
  ASSERT_TRUE(reducer_.Give(1, {2, 3}).ok());
  ASSERT_TRUE(reducer_.Give(0, {4, 5, 6}).ok());
  twin_.Abort("stop");
  EXPECT_TRUE(absl::IsAborted(reducer_.Finish()));
}

}  // namespace
}  // namespace gpupool::engine
