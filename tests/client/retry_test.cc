#include "client/retry.h"

#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

TEST(BackoffTest, DoublesUpToTheMaximum) {
  Backoff backoff(
      {.initial = absl::Seconds(1), .maximum = absl::Seconds(5), .jitter = 0},
      1);
  EXPECT_EQ(backoff.Next(), absl::Seconds(1));
  EXPECT_EQ(backoff.Next(), absl::Seconds(2));
  EXPECT_EQ(backoff.Next(), absl::Seconds(4));
  EXPECT_EQ(backoff.Next(), absl::Seconds(5));
  EXPECT_EQ(backoff.Next(), absl::Seconds(5));
}

TEST(BackoffTest, StartsAgainAfterASuccess) {
  Backoff backoff({.initial = absl::Seconds(1), .jitter = 0}, 1);
  backoff.Next();
  backoff.Next();
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Seconds(1));
}

TEST(BackoffTest, JitterOnlyShortens) {
  for (uint32_t seed = 1; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Backoff backoff({.initial = absl::Seconds(1), .jitter = 0.25}, seed);
    const absl::Duration wait = backoff.Next();
    EXPECT_LE(wait, absl::Seconds(1));
    EXPECT_GE(wait, absl::Milliseconds(750));
  }
}

TEST(IsRetryableTest, OnlyUnavailable) {
  EXPECT_TRUE(IsRetryable(absl::UnavailableError("")));
  EXPECT_FALSE(IsRetryable(absl::OkStatus()));
  EXPECT_FALSE(IsRetryable(absl::ResourceExhaustedError("")));
  EXPECT_FALSE(IsRetryable(absl::DeadlineExceededError("")));
}

TEST(SleepUnlessStoppedTest, SaysWhetherItWasStopped) {
  std::stop_source stop;
  EXPECT_TRUE(SleepUnlessStopped(absl::ZeroDuration(), stop.get_token()));
  stop.request_stop();
  EXPECT_FALSE(SleepUnlessStopped(absl::Hours(1), stop.get_token()));
}

}  // namespace
}  // namespace gpupool::client
