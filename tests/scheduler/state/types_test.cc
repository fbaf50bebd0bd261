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

TEST(TypesTest, DifferentAmountsOfOneSentenceLookDifferent) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const auto expect = [](uint64_t first, uint64_t second, const char* text,
                         const char* other) {
    EXPECT_EQ(FormatBytePair(first, second),
              std::make_pair(std::string(text), std::string(other)));
  };
  expect(3 * kGiB, 2 * kGiB, "3.0 GiB", "2.0 GiB");
  expect(2 * kGiB, 2 * kGiB, "2.0 GiB", "2.0 GiB");
  expect(2 * kGiB + 20 * kMiB, 2 * kGiB, "2.02 GiB", "2.00 GiB");
  expect(2 * kGiB, 2 * kGiB - kMiB, "2.000 GiB", "1.999 GiB");
  expect(2 * kGiB, 2 * kGiB - 1, "2147483648 B", "2147483647 B");
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
