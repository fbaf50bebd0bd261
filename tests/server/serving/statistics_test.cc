#include "server/serving/statistics.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(VersionStatisticsTest, StartsWithNothing) {
  const StatisticsSnapshot snapshot = VersionStatistics(4).Snapshot();
  EXPECT_EQ(snapshot.last_inference_unix_millis, 0);
  EXPECT_EQ(snapshot.success.count, 0u);
  EXPECT_TRUE(snapshot.batch_sizes.empty());
}

TEST(VersionStatisticsTest, SumsStagesOfSuccessesOnly) {
  VersionStatistics statistics(4);
  const absl::Time now = absl::FromUnixMillis(12345);
  statistics.RequestDone({.rows = 2,
                          .total = absl::Nanoseconds(10),
                          .queue = absl::Nanoseconds(1),
                          .copy_in = absl::Nanoseconds(2),
                          .compute = absl::Nanoseconds(3),
                          .copy_out = absl::Nanoseconds(4)},
                         now);
  statistics.RequestDone({.code = absl::StatusCode::kUnavailable,
                          .rows = 5,
                          .total = absl::Nanoseconds(7),
                          .queue = absl::Nanoseconds(7)},
                         now);
  const StatisticsSnapshot snapshot = statistics.Snapshot();
  EXPECT_EQ(snapshot.success.count, 1u);
  EXPECT_EQ(snapshot.success.nanos, 10u);
  EXPECT_EQ(snapshot.fail.count, 1u);
  EXPECT_EQ(snapshot.fail.nanos, 7u);
  EXPECT_EQ(snapshot.queue.nanos, 1u);
  EXPECT_EQ(snapshot.copy_out.nanos, 4u);
  EXPECT_EQ(snapshot.rows, 2u);
  EXPECT_EQ(snapshot.last_inference_unix_millis, 12345);
}

TEST(VersionStatisticsTest, CountsBatchesBySize) {
  VersionStatistics statistics(4);
  statistics.BatchDone({.rows = 4, .compute = absl::Nanoseconds(8)});
  statistics.BatchDone({.rows = 1, .compute = absl::Nanoseconds(1)});
  statistics.BatchDone({.rows = 4, .compute = absl::Nanoseconds(8)});
  statistics.BatchDone({.code = absl::StatusCode::kInternal, .rows = 2});
  const StatisticsSnapshot snapshot = statistics.Snapshot();
  EXPECT_EQ(snapshot.batches, 3u);
  ASSERT_EQ(snapshot.batch_sizes.size(), 2u);
  EXPECT_EQ(snapshot.batch_sizes[0].rows, 1u);
  EXPECT_EQ(snapshot.batch_sizes[1].rows, 4u);
  EXPECT_EQ(snapshot.batch_sizes[1].compute.count, 2u);
  EXPECT_EQ(snapshot.batch_sizes[1].compute.nanos, 16u);
}

TEST(VersionStatisticsTest, AHitIsASuccessAndNothingElse) {
  VersionStatistics statistics(4);
  statistics.CacheDone({.hit = true, .time = absl::Nanoseconds(5)});
  const StatisticsSnapshot snapshot = statistics.Snapshot();
  EXPECT_EQ(snapshot.success.count, 1u);
  EXPECT_EQ(snapshot.success.nanos, 5u);
  EXPECT_EQ(snapshot.cache_hit.count, 1u);
  EXPECT_EQ(snapshot.cache_hit.nanos, 5u);
  EXPECT_EQ(snapshot.cache_miss.count, 0u);
  EXPECT_EQ(snapshot.queue.count, 0u);
  EXPECT_EQ(snapshot.compute.count, 0u);
  EXPECT_EQ(snapshot.rows, 0u);
  EXPECT_EQ(snapshot.last_inference_unix_millis, 0);
}

TEST(VersionStatisticsTest, TheTimeOfAMissIsTimeOfItsRequest) {
  VersionStatistics statistics(4);
  statistics.RequestDone({.rows = 2, .total = absl::Nanoseconds(10)},
                         absl::Now());
  statistics.CacheDone({.hit = false, .time = absl::Nanoseconds(3)});
  const StatisticsSnapshot snapshot = statistics.Snapshot();
  EXPECT_EQ(snapshot.success.count, 1u);
  EXPECT_EQ(snapshot.success.nanos, 13u);
  EXPECT_EQ(snapshot.cache_miss.count, 1u);
  EXPECT_EQ(snapshot.cache_miss.nanos, 3u);
  EXPECT_EQ(snapshot.cache_hit.count, 0u);
}

TEST(VersionStatisticsTest, NegativeTimesOfASetBackClockCountAsZero) {
  VersionStatistics statistics(1);
  statistics.RequestDone({.rows = 1, .total = absl::Nanoseconds(-5)},
                         absl::Now());
  EXPECT_EQ(statistics.Snapshot().success.nanos, 0u);
}

}  // namespace
}  // namespace gpupool::server
