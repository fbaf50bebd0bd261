#include "server/worker/outbox.h"

#include <poll.h>

#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

worker::v1::Report ReportOf(uint64_t job) {
  worker::v1::Report report;
  report.set_job_id(job);
  return report;
}

bool Readable(const Outbox& box) {
  pollfd fd = {box.fd(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

TEST(OutboxTest, KeepsOrderAndWakes) {
  Outbox box;
  EXPECT_FALSE(Readable(box));
  box.Push(ReportOf(1));
  box.Push(Reply{3, {}});
  EXPECT_TRUE(Readable(box));
  const auto items = box.TakeAll();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(std::get<worker::v1::Report>(items[0]).job_id(), 1u);
  EXPECT_EQ(std::get<Reply>(items[1]).connection, 3u);
  EXPECT_FALSE(Readable(box));
  EXPECT_TRUE(box.TakeAll().empty());
}

TEST(OutboxTest, IsFinishedWhenClosedAndEmpty) {
  Outbox box;
  box.Push(ReportOf(1));
  EXPECT_FALSE(box.finished());
  box.Close();
  EXPECT_FALSE(box.finished());
  EXPECT_TRUE(Readable(box));
  box.TakeAll();
  EXPECT_TRUE(box.finished());
}

TEST(OutboxTest, FullBoxHoldsTheProducerBack) {
  Outbox box;
  for (size_t i = 0; i < Outbox::kMaxItems; ++i) box.Push(ReportOf(i));
  std::atomic<bool> pushed{false};
  std::thread producer([&] {
    box.Push(ReportOf(9999));
    pushed = true;
  });
  LetOthersRun();
  EXPECT_FALSE(pushed);
  EXPECT_EQ(box.TakeAll().size(), Outbox::kMaxItems);
  producer.join();
  EXPECT_EQ(box.TakeAll().size(), 1u);
}

}  // namespace
}  // namespace gpupool::server
