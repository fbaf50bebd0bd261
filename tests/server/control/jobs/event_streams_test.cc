#include "server/control/jobs/event_streams.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

TEST(EventStreamsTest, WakesOnlyWhoWatchesTheJob) {
  EventStreams streams;
  int first = 0, second = 0, other = 0;
  streams.Subscribe(1, [&] { ++first; });
  streams.Subscribe(1, [&] { ++second; });
  streams.Subscribe(2, [&] { ++other; });
  streams.Wake({1});
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(other, 0);
}

TEST(EventStreamsTest, NobodyIsWokenAfterLeaving) {
  EventStreams streams;
  int wakes = 0;
  const uint64_t id = streams.Subscribe(1, [&] { ++wakes; });
  streams.Unsubscribe(id);
  streams.Unsubscribe(id);
  streams.Wake({1});
  EXPECT_EQ(wakes, 0);
}

}  // namespace
}  // namespace gpupool::server
