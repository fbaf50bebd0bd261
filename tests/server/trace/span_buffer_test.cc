#include "server/trace/span_buffer.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/time.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

std::vector<Span> Plain(size_t count) {
  return std::vector<Span>(count, Span{.name = "test"});
}

TEST(SpanBufferTest, ReturnsAtOnceWhenEnoughWait) {
  SpanBuffer buffer(10, 3, absl::InfiniteDuration());
  buffer.Add(Plain(2));
  buffer.Add(Plain(2));
  EXPECT_EQ(buffer.size(), 4);
  const SpanBuffer::Taken taken = buffer.Take();
  EXPECT_EQ(taken.spans.size(), 4);
  EXPECT_EQ(taken.dropped, 0);
  EXPECT_EQ(buffer.size(), 0);
}

TEST(SpanBufferTest, WaitsForOthersUntilItsPatienceEnds) {
  SpanBuffer buffer(10, 3, absl::Milliseconds(1));
  buffer.Add(Plain(1));
  EXPECT_EQ(buffer.Take().spans.size(), 1);
}

TEST(SpanBufferTest, DropsAndCountsWhatHasNoRoom) {
  SpanBuffer buffer(3, 1, absl::InfiniteDuration());
  buffer.Add(Plain(2));
  buffer.Add(Plain(4));
  const SpanBuffer::Taken taken = buffer.Take();
  EXPECT_EQ(taken.spans.size(), 3);
  EXPECT_EQ(taken.dropped, 3);
  buffer.Add(Plain(1));
  EXPECT_EQ(buffer.Take().dropped, 0);
}

TEST(SpanBufferTest, WakesAThreadThatWaits) {
  SpanBuffer buffer(100, 50, absl::InfiniteDuration());
  size_t taken = 0;
  std::thread taker([&] { taken = buffer.Take().spans.size(); });
  for (int i = 0; i < 50; ++i) buffer.Add(Plain(1));
  taker.join();
  EXPECT_EQ(taken, 50);
}

TEST(SpanBufferTest, GivesWhatIsLeftAfterItWasClosed) {
  SpanBuffer buffer(10, 5, absl::InfiniteDuration());
  buffer.Add(Plain(1));
  buffer.Close();
  EXPECT_EQ(buffer.Take().spans.size(), 1);
  buffer.Add(Plain(1));
  EXPECT_TRUE(buffer.Take().spans.empty());
}

}  // namespace
}  // namespace gpupool::server
