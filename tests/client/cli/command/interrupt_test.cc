#include "client/cli/command/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

// Sends the signal to this process `count` times. Waits for the token after the
// first, and for the end of the process after the second. Ends with 7 when the
// token requests a stop.
[[noreturn]] void SignalMyself(int signal, int count) {
  Interrupt interrupt;
  for (int i = 0; i < count; ++i) {
    kill(getpid(), signal);
    WaitUntil([&] { return i == 0 && interrupt.stop().stop_requested(); });
  }
  _exit(interrupt.stop().stop_requested() ? 7 : 8);
}

// Each case is a separate process, so that only its own threads get the signal.
TEST(InterruptDeathTest, ASignalAsksForAStop) {
  EXPECT_EXIT(SignalMyself(SIGINT, 1), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(SignalMyself(SIGTERM, 1), ::testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, ASecondSignalEndsTheProcess) {
  EXPECT_EXIT(SignalMyself(SIGINT, 2), ::testing::ExitedWithCode(130), "");
  EXPECT_EXIT(SignalMyself(SIGTERM, 2), ::testing::ExitedWithCode(143), "");
}

TEST(InterruptDeathTest, DoesNothingByItself) {
  EXPECT_EXIT(SignalMyself(SIGINT, 0), ::testing::ExitedWithCode(8), "");
}

}  // namespace
}  // namespace gpupool::client
