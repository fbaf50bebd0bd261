#include "server/worker/doctor/apart.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace gpupool::server {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

TEST(ApartTest, AnswersComeFromAnotherProcess) {
  const auto answer = AskApart([] { return std::to_string(getpid()); }, kLong);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_NE(*answer, std::to_string(getpid()));
}

TEST(ApartTest, WhatItPrintsIsNotItsAnswer) {
  const auto answer = AskApart(
      [] {
        std::puts("a library's banner");
        return std::string("answer");
      },
      kLong);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "answer");
}

TEST(ApartTest, ACrashIsAnAnswerToo) {
  const auto answer = AskApart(
      [] {
        ::raise(SIGKILL);
        return std::string();
      },
      kLong);
  EXPECT_TRUE(absl::IsAborted(answer.status())) << answer.status();
  EXPECT_EQ(answer.status().message(), "killed by signal 9 (Killed)");
}

TEST(ApartTest, OneThatExitsGaveNoAnswer) {
  const auto answer = AskApart([]() -> std::string { ::_exit(3); }, kLong);
  EXPECT_EQ(answer.status().message(), "ended with exit code 3");
}

TEST(ApartTest, OneThatHangsIsEnded) {
  const auto answer = AskApart(
      []() -> std::string {
        while (true) ::pause();
      },
      absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
  // No child may be left.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace gpupool::server
