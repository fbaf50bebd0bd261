#include "server/control/records/rows.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

TEST(RowsTest, TimesSurviveTheRoundTripToTheNanosecond) {
  for (int64_t nanos : {0L, 1L, -1L, 1700000000123456789L, -1500000000L}) {
    const absl::Time time = absl::FromUnixNanos(nanos);
    EXPECT_EQ(FromTimestamp(ToTimestamp(time)), time);
    EXPECT_GE(ToTimestamp(time).nanos(), 0);
  }
}

TEST(RowsTest, DefaultsFillWhatTheSpecLeavesOut) {
  v1::Job job;
  const auto event = ToEvent(job);
  EXPECT_EQ(event.max_attempts, 3u);
  EXPECT_EQ(event.first_backoff, absl::Seconds(1));
  EXPECT_EQ(WithDefaults({}).max_batch_size(), 32u);
  EXPECT_EQ(WithDefaults({}).max_queue_size(), 1024u);
  EXPECT_EQ(WithDefaults({}).max_programs(), 16u);
}

TEST(RowsTest, RetriesThatAreNotSpelledOutAreTheSchedulers) {
  v1::RetrySpec retry;
  FillRetryDefaults(&retry);
  const scheduler::JobSubmitted submitted;
  EXPECT_EQ(retry.max_attempts(), submitted.max_attempts);
  EXPECT_EQ(absl::Seconds(retry.backoff_seconds()), submitted.first_backoff);
  retry.set_max_attempts(7);
  retry.set_backoff_seconds(0.25);
  FillRetryDefaults(&retry);
  EXPECT_EQ(retry.max_attempts(), 7u);
  EXPECT_EQ(retry.backoff_seconds(), 0.25);
}

TEST(RowsTest, WhereAJobOrAVersionIsWantedIsKept) {
  v1::Job row;
  row.mutable_spec()->set_device("cuda:1");
  row.mutable_spec()->set_exclusive(true);
  EXPECT_EQ(ToEvent(row).wanted_device, "cuda:1");
  EXPECT_TRUE(ToEvent(row).demands.exclusive);
  const scheduler::Job job = ToSchedulerJob(row, 0, {}, absl::UnixEpoch());
  EXPECT_EQ(job.wanted_device, "cuda:1");
  EXPECT_TRUE(job.demands.exclusive);
  v1::ModelVersion version;
  version.set_wanted_device("cpu");
  EXPECT_EQ(ToSchedulerVersion(version, nullptr).wanted_device, "cpu");
}

TEST(RowsTest, AModelIsNamedAfterTheJobUnlessSaidOtherwise) {
  v1::JobSpec spec;
  spec.set_name("digits");
  EXPECT_EQ(PublishedModelName(spec), "digits");
  spec.mutable_publish()->set_model("best");
  EXPECT_EQ(PublishedModelName(spec), "best");
}

TEST(RowsTest, ALiveJobWithoutItsDeviceBacksOffUntilNow) {
  v1::Job row;
  row.set_state(v1::RUNNING);
  row.set_attempt(2);
  const absl::Time now = absl::UnixEpoch();
  const scheduler::Job job = ToSchedulerJob(row, 1, {}, now);
  EXPECT_EQ(job.state, scheduler::JobState::kBackingOff);
  EXPECT_EQ(job.wake_time, now);
  EXPECT_EQ(job.failures, 1u);
}

TEST(RowsTest, ALiveJobNeedsAllItsRanks) {
  v1::Job row;
  row.set_state(v1::RUNNING);
  row.set_attempt(2);
  row.mutable_spec()->set_devices(2);
  const scheduler::DeviceId first(0);
  const scheduler::DeviceId second(1);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(ToSchedulerJob(row, 0, {{first}}, now).state,
            scheduler::JobState::kBackingOff);
  const auto whole = ToSchedulerJob(row, 0, {{first}, {second}}, now);
  EXPECT_EQ(whole.state, scheduler::JobState::kRunning);
  EXPECT_EQ(whole.ranks.size(), 2u);
  EXPECT_FALSE(whole.interruption.has_value());
  const auto broken = ToSchedulerJob(
      row, 0, {{first}, {second, scheduler::Outcome::kInterrupted}}, now);
  EXPECT_TRUE(broken.interruption.has_value());
}

TEST(RowsTest, AnElasticJobGoesOnWithTheRanksThatItHad) {
  v1::Job row;
  row.set_state(v1::RUNNING);
  row.set_attempt(1);
  row.mutable_spec()->mutable_training()->set_batch_size(12);
  row.mutable_spec()->set_min_devices(2);
  row.mutable_spec()->set_max_devices(5);
  const scheduler::JobSubmitted event = ToEvent(row);
  EXPECT_EQ(event.device_count, 2u);
  EXPECT_EQ(event.device_counts, (std::vector<uint32_t>{2, 3, 4}));
  EXPECT_EQ(MostDevices(row.spec()), 5u);
  scheduler::Ranks ranks;
  for (uint64_t i = 0; i < 3; ++i) ranks.push_back({scheduler::DeviceId(i)});
  const absl::Time now = absl::UnixEpoch();
  const scheduler::Job live = ToSchedulerJob(row, 0, ranks, now);
  EXPECT_EQ(live.state, scheduler::JobState::kRunning);
  EXPECT_EQ(live.device_count, 3u);
  ranks.pop_back();
  ranks.pop_back();
  EXPECT_EQ(ToSchedulerJob(row, 0, ranks, now).state,
            scheduler::JobState::kBackingOff);
}

TEST(RowsTest, NoDevicesAndOneDeviceAreTheSame) {
  v1::Job row;
  EXPECT_EQ(ToEvent(row).device_count, 1u);
  row.mutable_spec()->set_devices(1);
  EXPECT_EQ(ToEvent(row).device_count, 1u);
  row.mutable_spec()->set_devices(4);
  EXPECT_EQ(ToEvent(row).device_count, 4u);
}

TEST(RowsTest, AVersionWithoutItsDeviceWaitsForAPlace) {
  v1::ModelVersion row;
  row.set_state(v1::READY);
  EXPECT_EQ(ToSchedulerVersion(row, nullptr).state,
            scheduler::VersionState::kLoading);
  row.set_state(v1::UNLOADING);
  EXPECT_EQ(ToSchedulerVersion(row, nullptr).state,
            scheduler::VersionState::kUnloaded);
}

TEST(RowsTest, OnlyAVersionThatWasBeingLoadedStillReplacesOlderOnes) {
  v1::ModelVersion row;
  for (v1::VersionState state : {v1::UNLOADED, v1::READY, v1::LOAD_FAILED}) {
    row.set_state(state);
    EXPECT_FALSE(ToSchedulerVersion(row, nullptr).replaces_older);
  }
  row.set_state(v1::LOADING);
  EXPECT_TRUE(ToSchedulerVersion(row, nullptr).replaces_older);
}

TEST(RowsTest, ContentIsBytesRolesAndLayoutNotNames) {
  v1::Dataset a;
  a.add_files()->set_sha256("x");
  v1::Dataset b = a;
  b.mutable_files(0)->set_file_name("other.csv");
  EXPECT_TRUE(SameContent(a, b));
  b.mutable_layout()->set_has_header(true);
  EXPECT_FALSE(SameContent(a, b));
}

}  // namespace
}  // namespace gpupool::server
