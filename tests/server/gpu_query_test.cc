#include "server/gpu_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kWorker[] = GPUPOOL_STANDIN_WORKER;

TEST(GpuQueryTest, AsksTheWorkersModule) {
  const auto gpus = AskForGpus(kWorker, "");
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  const uint64_t usable = uint64_t{15} << 28;
  EXPECT_THAT(*gpus, ElementsAre(usable, usable, usable));
}

TEST(GpuQueryTest, TheWorkersReasonIsPassedOn) {
  ::setenv("GPUPOOL_STANDIN", "none", 1);
  const auto gpus = AskForGpus(kWorker, "/nowhere");
  ::unsetenv("GPUPOOL_STANDIN");
  EXPECT_TRUE(absl::IsFailedPrecondition(gpus.status()));
  EXPECT_EQ(gpus.status().message(), "there is no NVIDIA driver");
}

TEST(GpuQueryTest, AWorkerThatIsNoneHasAnError) {
  EXPECT_TRUE(absl::IsUnavailable(AskForGpus("/nowhere/worker", "").status()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(AskForGpus("/bin/false", "").status()));
  EXPECT_TRUE(absl::IsUnavailable(AskForGpus("/bin/echo", "").status()));
}

TEST(GpuQueryTest, OneThatDoesNotAnswerIsNotWaitedForForEver) {
  const auto gpus = AskForGpus("/usr/bin/yes", "", absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(gpus.status())) << gpus.status();
}

TEST(GpuQueryTest, ReadsTheLineOfJsonAndNothingElse) {
  EXPECT_THAT(*ParseGpus("a warning\n{\"gpus\":[{\"usable_bytes\":7}]}\n"),
              ElementsAre(7u));
  for (const char* text :
       {"", "{", "{}", "[]", "{\"gpus\":[]}", "{\"gpus\":[{}]}",
        "{\"gpus\":{}}", "{\"gpus\":[{\"usable_bytes\":-1}]}",
        "{\"gpus\":[{\"usable_bytes\":\"7\"}]}"}) {
    const auto gpus = ParseGpus(text);
    EXPECT_TRUE(absl::IsUnavailable(gpus.status())) << text;
  }
}

}  // namespace
}  // namespace gpupool::server
