#include "client/cli/command/program_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);
// Shorter than the sleeps of the test's programs.
constexpr absl::Duration kEver = absl::Seconds(900);

TEST(ProgramOutputTest, TakesWhatIsPrintedAndHowItEnded) {
  const auto output = RunProgram(
      {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, kLong, {});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->text, "out\n");
  EXPECT_EQ(output->exit_code, 3);
}

TEST(ProgramOutputTest, ASignalHasACodeOfItsOwn) {
  const auto output = RunProgram({"/bin/sh", "-c", "kill -9 $$"}, kLong, {});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->exit_code, 137);
  EXPECT_EQ(output->signal, 9);
}

TEST(ProgramOutputTest, AProgramThatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(RunProgram({"/no/where"}, kLong, {}).status()));
}

TEST(ProgramOutputTest, OneThatDoesNotEndIsEnded) {
  const auto output =
      RunProgram({"/bin/sleep", "1000"}, absl::Milliseconds(50), {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(output.status())) << output.status();
}

TEST(ProgramOutputTest, AnInterruptEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  const auto output =
      RunProgram({"/bin/sleep", "1000"}, kLong, stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(output.status())) << output.status();
}

TEST(ProgramOutputTest, AChildThatHoldsTheOutputIsEnded) {
  const auto output =
      RunProgram({"/bin/sh", "-c", "echo out; sleep 1000 & exit 0"}, kEver, {});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->text, "out\n");
}

TEST(ProgramOutputTest, OneThatClosesItsOutputIsEndedToo) {
  const auto output =
      RunProgram({"/bin/sh", "-c", "exec >&- 2>&-; exec sleep 1000"},
                 absl::Milliseconds(300), {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(output.status())) << output.status();
  EXPECT_THAT(output.status().message(), ::testing::HasSubstr("300ms"));
}

TEST(ProgramOutputTest, AFolderIsToldInWords) {
  const auto output = RunProgram({"/tmp"}, kLong, {});
  EXPECT_EQ(output.status().message(), "cannot start /tmp: it is a folder");
}

TEST(ProgramOutputTest, MoreThanTheBoundIsForgotten) {
  const auto output =
      RunProgram({"/bin/sh", "-c", "head -c 5000000 /dev/zero"}, kLong, {});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->text.size(), size_t{4} << 20);
}

}  // namespace
}  // namespace gpupool::client
