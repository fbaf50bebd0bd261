#include "server/worker/rehearsal/alarm.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace gpupool::server {
namespace {

TEST(AlarmTest, ALargerModelHasMoreTime) {
  EXPECT_EQ(RehearsalLimit(0), absl::Seconds(60));
  EXPECT_EQ(RehearsalLimit(uint64_t{2} << 30), absl::Seconds(180));
}

TEST(AlarmTest, TestsSetTheLimit) {
  ::setenv("GPUPOOL_REHEARSAL_SECONDS", "3", 1);
  EXPECT_EQ(RehearsalLimit(uint64_t{2} << 30), absl::Seconds(3));
  ::setenv("GPUPOOL_REHEARSAL_SECONDS", "soon", 1);
  EXPECT_EQ(RehearsalLimit(0), absl::Seconds(60));
  ::unsetenv("GPUPOOL_REHEARSAL_SECONDS");
}

TEST(AlarmTest, EndsTheProcessThatHangs) {
  const auto hang = [] {
    const Alarm alarm(absl::ZeroDuration());
    while (true) ::pause();
  };
  EXPECT_EXIT(hang(), ::testing::KilledBySignal(SIGALRM), "");
}

TEST(AlarmTest, LetsAProcessGoOnThatIsDone) {
  { const Alarm alarm(absl::Seconds(1000)); }
  EXPECT_EQ(::alarm(0), 0u);
}

}  // namespace
}  // namespace gpupool::server
