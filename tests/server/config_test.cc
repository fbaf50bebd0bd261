#include "server/config.h"

#include <gtest/gtest.h>

#include "server/settings.h"

namespace gpupool::server {
namespace {

absl::Status Set(const char* name, const char* value, Config* config) {
  return FindSetting(name)->kind.set(value, config);
}

TEST(ConfigTest, HasTheDefaultsOfTheTable) {
  const Config config;
  EXPECT_EQ(config.devices, "auto");
  EXPECT_EQ(config.device_memory_bytes, 0u);
  EXPECT_EQ(config.grpc_port, 8001);
  EXPECT_EQ(config.limits.dataset_bytes, uint64_t{8} << 30);
  EXPECT_EQ(config.limits.model_file_bytes, uint64_t{8} << 30);
  EXPECT_EQ(config.ring.slot_count, SlotRingOptions{}.slot_count);
  EXPECT_EQ(config.scheduling.min_run, absl::Seconds(30));
  EXPECT_EQ(config.serving_target_delay, absl::Milliseconds(500));
  EXPECT_TRUE(config.queues.empty());
}

TEST(PartialOptionsOfTest, BytesFollowTheLargestUploadUnlessTheyAreSet) {
  Config config;
  EXPECT_EQ(PartialOptionsOf(config).most_bytes, uint64_t{32} << 30);
  ASSERT_TRUE(Set("dataset-limit", "10GiB", &config).ok());
  EXPECT_EQ(PartialOptionsOf(config).most_bytes, uint64_t{40} << 30);
  ASSERT_TRUE(Set("upload-bytes", "1GiB", &config).ok());
  ASSERT_TRUE(Set("upload-files", "7", &config).ok());
  ASSERT_TRUE(Set("keep-uploads", "60", &config).ok());
  const PartialOptions options = PartialOptionsOf(config);
  EXPECT_EQ(options.most_bytes, uint64_t{1} << 30);
  EXPECT_EQ(options.most_files, 7u);
  EXPECT_EQ(options.keep, absl::Minutes(1));
}

TEST(SchedulingOfTest, TrainingGivesWayToServingUnlessTheDelayIsZero) {
  Config config;
  EXPECT_TRUE(SchedulingOf(config).yields_to_serving);
  ASSERT_TRUE(Set("serving-target-delay", "0", &config).ok());
  EXPECT_FALSE(SchedulingOf(config).yields_to_serving);
}

TEST(SchedulingOfTest, WhatIsNotSaidOfAQueueIsAsInTheRest) {
  Config config;
  ASSERT_TRUE(Set("queues", "a:order=las,rank=2;b:min-run=7", &config).ok());
  ASSERT_TRUE(Set("order", "easy", &config).ok());
  ASSERT_TRUE(Set("min-run", "9", &config).ok());
  const auto queues = SchedulingOf(config).queues;
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].order, scheduler::Order::kLeastAttained);
  EXPECT_EQ(queues[0].min_run, absl::Seconds(9));
  EXPECT_EQ(queues[1].order, scheduler::Order::kBackfill);
  EXPECT_EQ(queues[1].min_run, absl::Seconds(7));
}

}  // namespace
}  // namespace gpupool::server
