#include "server/control/upkeep/retention.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1000000);

class RetentionTest : public ::testing::Test {
 protected:
  void Open(const StoreOptions& options) {
    auto opened = Store::Open(directory_ / "gpupool.db", options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }

  // Adds jobs that ended an hour after each other, the last one at kNow.
  void AddEndedJobs(int count, int events = 3) {
    WriteBatch batch;
    for (int i = 0; i < count; ++i) {
      v1::Job& job = batch.upsert_jobs.emplace_back();
      job.set_id(store_->AllocateId(IdKind::kJob));
      job.set_request_id(absl::StrCat("request-", job.id()));
      job.set_state(v1::SUCCEEDED);
      *job.mutable_end_time() = ToTimestamp(kNow - absl::Hours(count - 1 - i));
      for (int sequence = 1; sequence <= events; ++sequence) {
        v1::JobEvent& event = batch.append_events.emplace_back();
        event.set_job_id(job.id());
        event.set_sequence(sequence);
      }
      v1::Checkpoint& checkpoint = batch.upsert_checkpoints.emplace_back();
      checkpoint.set_job_id(job.id());
      ++ledger_.job_counts[v1::SUCCEEDED];
    }
    ASSERT_TRUE(store_->Commit(batch).ok());
  }

  // Runs turns of the control thread until there is nothing more to delete.
  void RunAt(absl::Time now) {
    for (int turn = 0; turn < 100; ++turn) {
      Transaction transaction(&ledger_, store_.get(), now);
      retention_.Run(transaction);
      if (transaction.batch().empty()) return;
      ASSERT_TRUE(transaction.Commit().ok());
    }
    FAIL() << "there is always more";
  }

  uint64_t Jobs() { return (*store_->CountJobs())[v1::SUCCEEDED]; }
  uint64_t Events(uint64_t job) {
    return store_->ReadEvents(job, 0, 100000)->size();
  }

  TempDir directory_;
  std::unique_ptr<Store> store_;
  Ledger ledger_;
  Retention retention_;
};

TEST_F(RetentionTest, TheLastJobsToEndStay) {
  Open({.keep_jobs = 10, .keep_job_events = 4});
  AddEndedJobs(100);
  RunAt(kNow + absl::Hours(24));
  EXPECT_EQ(Jobs(), 10u);
  EXPECT_EQ(ledger_.job_counts[v1::SUCCEEDED], 10u);
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob(90).status()));
  EXPECT_TRUE(store_->GetJob(91).ok());
  EXPECT_EQ(store_->LoadCheckpoints(0)->size(), 10u);
  EXPECT_EQ(Events(96), 0u);
  EXPECT_EQ(Events(97), 3u);
}

TEST_F(RetentionTest, AJobIsKnownByItsRequestIdForADayAfterItsEnd) {
  Open({.keep_jobs = 1, .keep_job_events = 1});
  AddEndedJobs(48);
  RunAt(kNow);
  EXPECT_EQ(Jobs(), 24u);  // those that ended 0 .. 23 hours ago
  EXPECT_TRUE(store_->FindByRequestId("", "request-25")->has_value());
  EXPECT_FALSE(store_->FindByRequestId("", "request-24")->has_value());
}

TEST_F(RetentionTest, WhatHasNotEndedStaysWhateverItsAge) {
  Open({.keep_jobs = 1, .keep_job_events = 1});
  WriteBatch batch;
  for (int i = 0; i < 5; ++i) {
    v1::Job& job = batch.upsert_jobs.emplace_back();
    job.set_id(store_->AllocateId(IdKind::kJob));
    job.set_request_id(absl::StrCat(i));
    job.set_state(v1::QUEUED);
  }
  ASSERT_TRUE(store_->Commit(batch).ok());
  RunAt(kNow + absl::Hours(10000));
  EXPECT_EQ((*store_->CountJobs())[v1::QUEUED], 5u);
}

TEST_F(RetentionTest, ZeroKeepsAll) {
  Open({});
  AddEndedJobs(30);
  RunAt(kNow + absl::Hours(10000));
  EXPECT_EQ(Jobs(), 30u);
  EXPECT_EQ(Events(1), 3u);
}

TEST_F(RetentionTest, VeryManyEventsGoInParts) {
  Open({.keep_jobs = 1, .keep_job_events = 1});
  AddEndedJobs(2, /*events=*/25000);
  Transaction transaction(&ledger_, store_.get(), kNow + absl::Hours(25));
  retention_.Run(transaction);
  ASSERT_TRUE(transaction.Commit().ok());
  EXPECT_EQ(Events(1), 15000u);
  RunAt(kNow + absl::Hours(25));
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob(1).status()));
  EXPECT_EQ(Events(2), 25000u);
}

TEST_F(RetentionTest, LooksAgainAfterTenSecondsOrWhenTheClockIsSetBack) {
  Open({.keep_jobs = 1, .keep_job_events = 1});
  RunAt(kNow + absl::Hours(100));
  AddEndedJobs(2);
  RunAt(kNow + absl::Hours(100) + absl::Seconds(9));
  EXPECT_EQ(Jobs(), 2u);
  RunAt(kNow + absl::Hours(50));
  EXPECT_EQ(Jobs(), 1u);
}

}  // namespace
}  // namespace gpupool::server
