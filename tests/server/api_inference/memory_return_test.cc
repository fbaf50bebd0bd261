#include "server/api/inference/memory_return.h"

#include <atomic>

#include "gtest/gtest.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kMany = QuietTime::kWorthBytes;

TEST(QuietTimeTest, MemoryIsGivenBackOnceWhenTheRequestsAreOver) {
  QuietTime quiet;
  EXPECT_FALSE(quiet.IsDue(0, 0));
  EXPECT_FALSE(quiet.IsDue(kMany, kMany)) << "requests are in flight";
  EXPECT_FALSE(quiet.IsDue(0, 2 * kMany)) << "requests came a moment ago";
  EXPECT_TRUE(quiet.IsDue(0, 2 * kMany));
  EXPECT_FALSE(quiet.IsDue(0, 2 * kMany)) << "once is enough";
}

TEST(QuietTimeTest, FewBytesAreNotWorthIt) {
  QuietTime quiet;
  EXPECT_FALSE(quiet.IsDue(0, kMany - 1));
  EXPECT_FALSE(quiet.IsDue(0, kMany - 1));
}

TEST(QuietTimeTest, SmallRequestsDoNotKeepTheMemory) {
  QuietTime quiet;
  EXPECT_FALSE(quiet.IsDue(0, kMany));
  EXPECT_TRUE(quiet.IsDue(1000, kMany + 1000));
}

TEST(QuietTimeTest, ALargeRequestInFlightIsNoQuietTime) {
  QuietTime quiet;
  EXPECT_FALSE(quiet.IsDue(kMany, kMany));
  EXPECT_FALSE(quiet.IsDue(kMany, kMany));
  EXPECT_TRUE(quiet.IsDue(0, kMany));
}

TEST(MemoryReturnTest, LooksAtTheGateUntilItIsDestroyed) {
  BytesInFlight gate(2 * kMany);
  std::atomic<int> returns{0};
  {
    const MemoryReturn memory_return(&gate, {.interval = absl::Milliseconds(1),
                                             .give_back = [&] { ++returns; }});
    gate.Admit(kMany);  // given back at once
    EXPECT_TRUE(WaitUntil([&] { return returns == 1; }));
  }
  EXPECT_EQ(returns, 1);
}

}  // namespace
}  // namespace gpupool::server
