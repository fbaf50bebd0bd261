#include "server/trace/span_buffer.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

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
  EXPECT_EQ(buffer.Take().size(), 4);
  EXPECT_EQ(buffer.size(), 0);
}

TEST(SpanBufferTest, WaitsForOthersUntilItsPatienceEnds) {
  SpanBuffer buffer(10, 3, absl::Milliseconds(1));
  buffer.Add(Plain(1));
  EXPECT_EQ(buffer.Take().size(), 1);
}

TEST(SpanBufferTest, TellsAtOnceHowManyHaveNoRoom) {
  SpanBuffer buffer(3, 1, absl::InfiniteDuration());
  EXPECT_EQ(buffer.Add(Plain(2)), 0);
  EXPECT_EQ(buffer.Add(Plain(4)), 3);
  EXPECT_EQ(buffer.Add(Plain(2)), 2);
  EXPECT_EQ(buffer.Take().size(), 3);
  EXPECT_EQ(buffer.Add(Plain(1)), 0);
}

TEST(SpanBufferTest, TellsHowManyWaitAfterEachChange) {
  std::vector<size_t> told;
  SpanBuffer buffer(3, 1, absl::InfiniteDuration(),
                    [&](size_t spans) { told.push_back(spans); });
  buffer.Add(Plain(2));
  buffer.Add(Plain(4));
  buffer.Add(Plain(1));
  buffer.Take();
  EXPECT_EQ(told, (std::vector<size_t>{2, 3, 0}));
}

TEST(SpanBufferTest, WakesAThreadThatWaits) {
  SpanBuffer buffer(100, 50, absl::InfiniteDuration());
  size_t taken = 0;
  std::thread taker([&] { taken = buffer.Take().size(); });
  for (int i = 0; i < 50; ++i) buffer.Add(Plain(1));
  taker.join();
  EXPECT_EQ(taken, 50);
}

TEST(SpanBufferTest, SpansThatWereTakenDoNotComeBack) {
  SpanBuffer buffer(10, 3, absl::InfiniteDuration());
  buffer.Add(Plain(4));
  std::vector<Span> spans = buffer.Take();
  buffer.Add(Plain(3));
  spans = buffer.Take(std::move(spans));
  EXPECT_EQ(spans.size(), 3);
  buffer.Close();
  EXPECT_TRUE(buffer.Take(std::move(spans)).empty());
}

TEST(SpanBufferTest, GivesWhatIsLeftAfterItWasClosed) {
  SpanBuffer buffer(10, 5, absl::InfiniteDuration());
  buffer.Add(Plain(1));
  buffer.Close();
  EXPECT_EQ(buffer.Take().size(), 1);
  EXPECT_EQ(buffer.Add(Plain(1)), 1);
  EXPECT_TRUE(buffer.Take().empty());
}

}  // namespace
}  // namespace gpupool::server
