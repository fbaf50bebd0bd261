#include "server/worker/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"

namespace gpupool::server {
namespace {

TEST(CheckpointWriterTest, RunsWritesInTheirOrderAndFinishesAllOfThem) {
  std::vector<int> order;
  {
    CheckpointWriter writer;
    for (int i = 0; i < 5; ++i) {
      writer.Post([&order, i] { order.push_back(i); });
    }
    writer.Finish();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
    writer.Post([&order] { order.push_back(9); });
  }
  EXPECT_EQ(order.size(), 5u);
}

TEST(CheckpointWriterTest, WaitsUntilFewEnoughAreLeft) {
  absl::Notification first, second;
  std::atomic<int> done = 0;
  CheckpointWriter writer;
  writer.WaitUntilLeft(0);
  for (absl::Notification* gate : {&first, &second}) {
    writer.Post([&done, gate] {
      gate->WaitForNotification();
      ++done;
    });
  }
  writer.WaitUntilLeft(2);
  EXPECT_EQ(done, 0);
  first.Notify();
  writer.WaitUntilLeft(1);
  EXPECT_EQ(done, 1);
  second.Notify();
  writer.WaitUntilLeft(0);
  EXPECT_EQ(done, 2);
}

TEST(CheckpointWriterTest, GivesTheCopyBackBeforeItsPlaceIsFree) {
  auto copy = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = copy;
  CheckpointWriter writer;
  writer.Post([copy = std::move(copy)] {});
  writer.WaitUntilLeft(0);
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace gpupool::server
