#include "server/store/usage_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHour = 3600;

class UsageReportTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto store = Store::Open(directory_ / "gpupool.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Commit(const WriteBatch& batch) {
    const absl::Status status = store_->Commit(batch);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Add(int64_t hour, const std::string& tenant, const std::string& model,
           uint64_t job, double device_seconds, double joules = 0) {
    WriteBatch batch;
    batch.add_usage[{hour, tenant, model, "cuda", v1::TRAINING, job}] = {
        device_seconds, 10 * device_seconds, joules,
        joules > 0 ? device_seconds : 0};
    Commit(batch);
  }
  absl::StatusOr<v1::GetUsageResponse> Get(const v1::GetUsageRequest& request) {
    return store_->GetUsage(request, absl::FromUnixSeconds(100 * kHour + 5));
  }
  static v1::GetUsageRequest By(v1::UsageGrouping grouping) {
    v1::GetUsageRequest request;
    request.set_grouping(grouping);
    return request;
  }

  TempDir directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(UsageReportTest, WhatIsAddedAddsUpAndIsOnDisk) {
  Add(50, "a", "digits", 1, 5);
  Add(50, "a", "digits", 1, 7, 70);
  Add(51, "a", "other", 2, 1);
  Add(51, "b", "digits", 3, 2);
  Reopen();
  const auto usage = *Get(By(v1::BY_TENANT));
  ASSERT_EQ(usage.rows_size(), 2);
  EXPECT_EQ(usage.rows(0).tenant(), "a");
  EXPECT_EQ(usage.rows(0).device_seconds(), 13);
  EXPECT_EQ(usage.rows(0).byte_seconds(), 130);
  EXPECT_EQ(usage.rows(0).energy_joules(), 70);
  EXPECT_EQ(usage.rows(0).metered_device_seconds(), 7);
  EXPECT_FALSE(usage.rows(1).has_energy_joules());
  EXPECT_EQ(usage.to().seconds(), 101 * kHour);
}

TEST_F(UsageReportTest, GroupsByJobAndByModel) {
  Add(50, "a", "digits", 1, 5);
  Add(50, "b", "digits", 2, 7);
  const auto jobs = *Get(By(v1::BY_JOB));
  ASSERT_EQ(jobs.rows_size(), 2);
  EXPECT_EQ(jobs.rows(1).job_id(), 2u);
  EXPECT_EQ(jobs.rows(1).tenant(), "b");
  EXPECT_EQ(jobs.rows(1).model(), "digits");
  const auto models = *Get(By(v1::BY_MODEL));
  ASSERT_EQ(models.rows_size(), 1);
  EXPECT_EQ(models.rows(0).device_seconds(), 12);
}

TEST_F(UsageReportTest, TimesAreRoundedOutToHours) {
  for (int64_t hour = 10; hour < 15; ++hour) Add(hour, "a", "m", 1, 1);
  v1::GetUsageRequest request = By(v1::BY_TENANT);
  request.mutable_since()->set_seconds(11 * kHour + 1800);
  request.mutable_until()->set_seconds(13 * kHour + 1);
  const auto usage = *Get(request);
  EXPECT_EQ(usage.rows(0).device_seconds(), 3);
  EXPECT_EQ(usage.from().seconds(), 11 * kHour);
  EXPECT_EQ(usage.to().seconds(), 14 * kHour);
}

TEST_F(UsageReportTest, OneTenantOnly) {
  Add(50, "a", "m", 1, 1);
  Add(50, "b", "m", 2, 2);
  v1::GetUsageRequest request = By(v1::BY_MODEL);
  request.set_tenant("b");
  EXPECT_EQ(Get(request)->rows(0).device_seconds(), 2);
}

TEST_F(UsageReportTest, PagesAreBoundedAndComplete) {
  for (uint64_t job = 1; job <= 5; ++job) Add(50, "a", "m", job, 1);
  v1::GetUsageRequest request = By(v1::BY_JOB);
  request.set_page_size(2);
  std::vector<uint64_t> seen;
  do {
    const auto page = Get(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->rows_size(), 2);
    for (const auto& row : page->rows()) seen.push_back(row.job_id());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(seen, ::testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(UsageReportTest, SumsOutliveTheJob) {
  v1::Job job;
  job.set_id(store_->AllocateId(IdKind::kJob));
  job.set_request_id("r");
  Commit({.upsert_jobs = {job}});
  Add(50, "a", "m", job.id(), 3);
  Add(51, "a", "m", job.id(), 4);
  Add(50, "a", "m", 0, 1);
  Commit({.delete_jobs = {job.id()}});
  const auto jobs = *Get(By(v1::BY_JOB));
  ASSERT_EQ(jobs.rows_size(), 1);
  EXPECT_EQ(jobs.rows(0).job_id(), 0u);
  EXPECT_EQ(jobs.rows(0).device_seconds(), 8);
  EXPECT_EQ(Get(By(v1::BY_TENANT))->rows(0).device_seconds(), 8);
}

TEST_F(UsageReportTest, WhatMakesNoSenseIsRefused) {
  v1::GetUsageRequest request;
  request.mutable_since()->set_seconds(12 * kHour);
  request.mutable_until()->set_seconds(10 * kHour);
  EXPECT_THAT(
      std::string(Get(request).status().message()),
      HasSubstr("since 1970-01-01T12:00:00+00:00, which is after its end, "
                "1970-01-01T10:00:00+00:00; give an earlier `since`"));
  v1::GetUsageRequest token;
  token.set_page_token("nonsense");
  EXPECT_TRUE(absl::IsInvalidArgument(Get(token).status()));
}

}  // namespace
}  // namespace gpupool::server
