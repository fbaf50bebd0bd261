#include "server/gpu_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace gpupool::server {
namespace {

using scheduler::Link;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;

constexpr char kWorker[] = GPUPOOL_STANDIN_WORKER;

TEST(GpuQueryTest, AsksTheWorkersModule) {
  const auto gpus = AskForGpus(kWorker, "");
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  static constexpr uint64_t usable = uint64_t{3888} << 20;
  const auto has = [](const auto& links) {
    return AllOf(Field(&UsableGpu::bytes, usable),
                 Field(&UsableGpu::links, links));
  };
  const auto none = Link::kUnknown;
  EXPECT_THAT(*gpus, ElementsAre(has(ElementsAre(none, none, none)),
                                 has(ElementsAre(none, none, none)),
                                 has(ElementsAre(none, none, none))));
}

TEST(GpuQueryTest, TheManagementLibraryKnowsTheLinks) {
  const auto gpus = AskForGpus(kWorker, GPUPOOL_FAKE_NVML_DIR);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 3u);
  EXPECT_THAT(gpus->at(0).links,
              ElementsAre(Link::kUnknown, Link::kSystem, Link::kSystem));
  EXPECT_THAT(gpus->at(2).links,
              ElementsAre(Link::kSystem, Link::kNvlink, Link::kUnknown));
}

TEST(GpuQueryTest, AGpuWithoutKernelsComesWithTheReason) {
  ::setenv("GPUPOOL_STANDIN", "old", 1);
  const auto gpus = AskForGpus(kWorker, "");
  ::unsetenv("GPUPOOL_STANDIN");
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 3u);
  EXPECT_EQ(gpus->at(0).refusal, "");
  EXPECT_THAT(gpus->at(1).refusal,
              ::testing::HasSubstr("has compute capability 7.5"));
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

TEST(GpuQueryTest, TheCallerMayGiveUp) {
  const auto gpus = AskForGpus("/usr/bin/yes", "", absl::InfiniteDuration(),
                               [] { return true; });
  EXPECT_TRUE(absl::IsCancelled(gpus.status())) << gpus.status();
}

TEST(GpuQueryTest, ReadsTheLineOfJsonAndNothingElse) {
  const auto one = ParseGpus("a warning\n{\"gpus\":[{\"usable_bytes\":7}]}\n");
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(one->size(), 1u);
  EXPECT_EQ(one->front().bytes, 7u);
  for (const char* text :
       {"", "{", "{}", "[]", "{\"gpus\":[]}", "{\"gpus\":[{}]}",
        "{\"gpus\":{}}", "{\"gpus\":[{\"usable_bytes\":-1}]}",
        "{\"gpus\":[{\"usable_bytes\":\"7\"}]}"}) {
    const auto gpus = ParseGpus(text);
    EXPECT_TRUE(absl::IsUnavailable(gpus.status())) << text;
  }
}

TEST(GpuQueryTest, LinksThatItDoesNotKnowMeanNothing) {
  const auto gpus = ParseGpus(
      "{\"gpus\":[{\"usable_bytes\":7,\"links\":[\"\",\"WIFI\",3]},"
      "{\"usable_bytes\":7,\"links\":[\"NVL\"]},"
      "{\"usable_bytes\":7,\"links\":\"NVL\"}]}");
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_THAT(gpus->at(0).links,
              ElementsAre(Link::kUnknown, Link::kUnknown, Link::kUnknown));
  EXPECT_TRUE(gpus->at(1).links.empty());
  EXPECT_TRUE(gpus->at(2).links.empty());
}

}  // namespace
}  // namespace gpupool::server
