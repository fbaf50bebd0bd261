#include "scheduler/serve/batch_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpupool::scheduler {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

std::vector<WaitingRequest> Queue(std::vector<uint32_t> rows,
                                  absl::Time enqueue_time = kNow) {
  std::vector<WaitingRequest> queue;
  for (uint32_t count : rows) queue.push_back({count, enqueue_time});
  return queue;
}

TEST(BatchPolicyTest, WaitsForAChangeWhenNothingWaits) {
  const BatchDecision decision = DecideBatch({}, {}, 0, kNow);
  EXPECT_EQ(decision.close_count, 0u);
  EXPECT_EQ(decision.wait_until, absl::InfiniteFuture());
}

TEST(BatchPolicyTest, SendsWhatIsThereWithoutADelay) {
  EXPECT_EQ(
      DecideBatch(Queue({1, 1, 1}), {.max_batch_size = 8}, 0, kNow).close_count,
      3u);
}

TEST(BatchPolicyTest, WaitsUntilTheOldestHasWaitedLongEnough) {
  const BatchOptions options{.max_batch_size = 8,
                             .max_queue_delay = absl::Milliseconds(2)};
  const auto queue = Queue({1, 1});
  const absl::Time deadline = kNow + absl::Milliseconds(2);
  const BatchDecision early = DecideBatch(queue, options, 0, kNow);
  EXPECT_EQ(early.close_count, 0u);
  EXPECT_EQ(early.wait_until, deadline);
  const absl::Time before = deadline - absl::Nanoseconds(1);
  EXPECT_EQ(DecideBatch(queue, options, 0, before).close_count, 0u);
  EXPECT_EQ(DecideBatch(queue, options, 0, deadline).close_count, 2u);
}

TEST(BatchPolicyTest, AClockThatWasSetBackHoldsNothingUp) {
  const auto queue = Queue({1, 1}, kNow + absl::Minutes(10));
  EXPECT_EQ(DecideBatch(queue, {.max_batch_size = 8}, 0, kNow).close_count, 2u);
}

TEST(BatchPolicyTest, ClosesAFullBatchAtOnce) {
  const BatchOptions options{.max_batch_size = 4,
                             .max_queue_delay = absl::Seconds(1)};
  EXPECT_EQ(DecideBatch(Queue({2, 1}), options, 0, kNow).close_count, 0u);
  EXPECT_EQ(DecideBatch(Queue({2, 2}), options, 0, kNow).close_count, 2u);
  EXPECT_EQ(DecideBatch(Queue({2, 2, 1}), options, 0, kNow).close_count, 2u);
}

TEST(BatchPolicyTest, EnoughRowsAreNotKeptWaiting) {
  const BatchOptions options{.max_batch_size = 8,
                             .max_queue_delay = absl::Seconds(1),
                             .enough_rows = 3};
  EXPECT_EQ(DecideBatch(Queue({1, 1}), options, 0, kNow).close_count, 0u);
  EXPECT_EQ(DecideBatch(Queue({1, 1, 1}), options, 0, kNow).close_count, 3u);
  // All that is there goes along.
  EXPECT_EQ(DecideBatch(Queue({1, 1, 1, 1}), options, 0, kNow).close_count, 4u);
}

TEST(BatchPolicyTest, NeverLetsARequestOvertakeOneThatDoesNotFit) {
  const BatchOptions options{.max_batch_size = 4,
                             .max_queue_delay = absl::Seconds(1)};
  // 3 + 2 > 4. The 1 behind must not pass the 2.
  EXPECT_EQ(DecideBatch(Queue({3, 2, 1}), options, 0, kNow).close_count, 1u);
}

TEST(BatchPolicyTest, SendsATooLargeRequestAlone) {
  const BatchOptions options{.max_batch_size = 4};
  EXPECT_EQ(DecideBatch(Queue({9, 1}), options, 0, kNow).close_count, 1u);
}

TEST(BatchPolicyTest, HoldsBackWhileEnoughBatchesAreInFlight) {
  const BatchOptions options{.max_batch_size = 4, .max_in_flight = 2};
  EXPECT_EQ(DecideBatch(Queue({4}), options, 1, kNow).close_count, 1u);
  const BatchDecision full = DecideBatch(Queue({4}), options, 2, kNow);
  EXPECT_EQ(full.close_count, 0u);
  EXPECT_EQ(full.wait_until, absl::InfiniteFuture());
}

TEST(BatchPolicyTest, OneShortBatchIsInFlightAtATime) {
  const BatchOptions options{.max_batch_size = 4, .max_in_flight = 3};
  EXPECT_EQ(MaxInFlight(options, absl::ZeroDuration()), 1);
  EXPECT_EQ(MaxInFlight(options, kShortBatch), 1);
  EXPECT_EQ(MaxInFlight(options, kShortBatch + absl::Nanoseconds(1)), 3);
  // Nothing was measured yet.
  EXPECT_EQ(MaxInFlight(options, absl::InfiniteDuration()), 3);
}

TEST(BatchPolicyTest, DoesNotOverflowOnHugeRowCounts) {
  const BatchOptions options{.max_batch_size = UINT32_MAX};
  EXPECT_EQ(DecideBatch(Queue({UINT32_MAX, UINT32_MAX}), options, 0, kNow)
                .close_count,
            1u);
}

}  // namespace
}  // namespace gpupool::scheduler
