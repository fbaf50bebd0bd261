#include "client/cli/mlflow/point_queue.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Time kAtOnce = absl::InfinitePast();
constexpr absl::Time kNever = absl::InfiniteFuture();

std::vector<uint64_t> TakeSteps(PointQueue& queue, size_t most,
                                absl::Time patience) {
  std::vector<uint64_t> steps;
  for (const MetricPoint& point : queue.Take(most, patience)) {
    steps.push_back(point.step);
  }
  return steps;
}

void PushSteps(PointQueue& queue, uint64_t count) {
  for (uint64_t step = 1; step <= count; ++step) {
    EXPECT_TRUE(queue.Push({.key = "a", .step = step}));
  }
}

TEST(PointQueueTest, GivesPointsInTheirOrderAndAtMostSoMany) {
  PointQueue queue(10);
  PushSteps(queue, 5);
  EXPECT_THAT(TakeSteps(queue, 3, kNever), ElementsAre(1, 2, 3));
  EXPECT_THAT(TakeSteps(queue, 3, kAtOnce), ElementsAre(4, 5));
}

TEST(PointQueueTest, GivesTheRestAtTheEndAndThenNothing) {
  PointQueue queue(10);
  PushSteps(queue, 2);
  queue.End();
  EXPECT_THAT(TakeSteps(queue, 3, kNever), ElementsAre(1, 2));
  EXPECT_THAT(TakeSteps(queue, 3, kNever), IsEmpty());
  EXPECT_THAT(TakeSteps(queue, 3, kAtOnce), IsEmpty());
}

TEST(PointQueueTest, WaitsForAPointEvenWithoutPatience) {
  PointQueue queue(10);
  std::jthread pusher([&] {
    LetOthersRun();
    PushSteps(queue, 1);
  });
  EXPECT_THAT(TakeSteps(queue, 3, kAtOnce), ElementsAre(1));
}

TEST(PointQueueTest, WaitsForEnoughPointsWhileItHasPatience) {
  PointQueue queue(10);
  PushSteps(queue, 2);
  std::jthread pusher([&] {
    LetOthersRun();
    EXPECT_TRUE(queue.Push({.key = "a", .step = 3}));
  });
  EXPECT_THAT(TakeSteps(queue, 3, kNever), ElementsAre(1, 2, 3));
}

TEST(PointQueueTest, AFullQueueIsEnough) {
  PointQueue queue(2);
  PushSteps(queue, 2);
  EXPECT_THAT(TakeSteps(queue, 1000, kNever), ElementsAre(1, 2));
}

TEST(PointQueueTest, PushBlocksWhileItIsFull) {
  PointQueue queue(2);
  PushSteps(queue, 2);
  std::atomic<bool> pushed = false;
  std::jthread pusher([&] {
    EXPECT_TRUE(queue.Push({.key = "a", .step = 3}));
    pushed = true;
  });
  LetOthersRun();
  EXPECT_FALSE(pushed);
  EXPECT_THAT(TakeSteps(queue, 1, kNever), ElementsAre(1));
  EXPECT_TRUE(WaitUntil([&] { return pushed.load(); }));
  EXPECT_THAT(TakeSteps(queue, 2, kNever), ElementsAre(2, 3));
}

TEST(PointQueueTest, AClosedQueueTakesNoPoint) {
  PointQueue queue(1);
  PushSteps(queue, 1);
  std::atomic<int> refused = 0;
  std::jthread pusher([&] { refused += !queue.Push({.key = "a"}); });
  LetOthersRun();
  queue.Close();
  EXPECT_TRUE(WaitUntil([&] { return refused == 1; }));
  EXPECT_FALSE(queue.Push({.key = "a"}));
}

}  // namespace
}  // namespace gpupool::client
