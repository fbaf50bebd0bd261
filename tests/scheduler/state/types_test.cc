#include "scheduler/state/types.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace gpupool::scheduler {
namespace {

static_assert(!std::is_convertible_v<JobId, VersionId>);
static_assert(!std::is_convertible_v<uint64_t, JobId>);

TEST(TypesTest, BytesReadWellAtEveryScale) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1288490189), "1.2 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16384.0 PiB");
}

TEST(TypesTest, StatesAreEndedOrLiveButNeverBoth) {
  for (int value = 1; value <= 8; ++value) {
    const auto state = static_cast<JobState>(value);
    EXPECT_FALSE(IsEnded(state) && IsLive(state)) << ToString(state);
    EXPECT_NE(ToString(state), "UNKNOWN");
  }
}

TEST(TypesTest, AttemptsOrderByJobThenNumber) {
  const AttemptRef first{JobId(1), 2};
  const AttemptRef second{JobId(2), 1};
  EXPECT_LT(first, second);
  EXPECT_LT((AttemptRef{JobId(1), 1}), first);
}

}  // namespace
}  // namespace gpupool::scheduler
