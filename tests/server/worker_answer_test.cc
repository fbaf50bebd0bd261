#include "server/worker_answer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gpupool::server {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

TEST(WorkerAnswerTest, OutputAndErrorsAreTheAnswer) {
  const auto answer =
      AskWorker({"/bin/sh", "-c", "echo out; echo err >&2; exit 4"}, kLong);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->end, "exit code 4");
  EXPECT_EQ(answer->text, "out\nerr\n");
}

TEST(WorkerAnswerTest, OneThatIsNotThereIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(AskWorker({"/no/where"}, kLong).status()));
}

TEST(WorkerAnswerTest, OneThatDoesNotAnswerIsEnded) {
  const auto answer = AskWorker({"/bin/sleep", "1000"}, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
}

TEST(WorkerAnswerTest, AFolderIsNamedInWords) {
  const auto answer = AskWorker({"/tmp"}, kLong);
  EXPECT_EQ(answer.status().message(), "cannot start /tmp: Permission denied");
}

TEST(WorkerAnswerTest, ItDiesWithTheThreadThatAsked) {
  std::string pipe = ::testing::TempDir() + "/answerXXXXXX";
  ASSERT_NE(::mkdtemp(pipe.data()), nullptr);
  const std::string folder = pipe;
  pipe += "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const pid_t asker = ::fork();
  if (asker == 0) {
    (void)AskWorker({"/bin/sh", "-c", "exec 3>" + pipe + "; exec sleep 1000"},
                    kLong);
    ::_exit(0);
  }
  // Opens when the process under test writes, and ends when it has died.
  std::ifstream ends(pipe);
  ::kill(asker, SIGKILL);
  ::waitpid(asker, nullptr, 0);
  EXPECT_EQ(ends.get(), std::char_traits<char>::eof());
  std::filesystem::remove_all(folder);
}

TEST(WorkerAnswerTest, TheCallerMayGiveUp) {
  int asked = 0;
  const auto answer =
      AskWorker({"/bin/sleep", "1000"}, kLong, [&] { return ++asked > 2; });
  EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
}

}  // namespace
}  // namespace gpupool::server
