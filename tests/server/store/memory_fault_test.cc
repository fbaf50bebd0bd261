// The store in a process without memory for SQLite. Every allocation of an
// open, a commit and a read fails once, alone and together with all later ones.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "server/store/store.h"
#include "tests/server/store/faulty_memory.h"
#include "tests/server/store/large_job.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

constexpr int kMost = 5000;  // allocations of one call

// Returns a batch of two jobs. Either both or none may be stored.
WriteBatch BatchOfRows(Store& store) {
  WriteBatch batch;
  for (int i = 0; i < 2; ++i) {
    batch.upsert_jobs.push_back(JobWithId(store.AllocateId(IdKind::kJob)));
  }
  return batch;
}

class MemoryFaultTest : public ::testing::TestWithParam<bool> {
 protected:
  bool all_later() const { return GetParam(); }
  FaultyMemory memory_;
  TempDir directory_;
  std::string path_ = directory_ / "gpupool.db";
};

TEST_P(MemoryFaultTest, ACommitIsWholeOrRefused) {
  int failed = 0;
  for (int call = 0;; ++call) {
    ASSERT_LT(call, kMost) << "the commit never succeeded";
    TempDir directory;
    const std::string path = directory / "gpupool.db";
    absl::Status committed;
    {
      auto store = Store::Open(path);
      ASSERT_TRUE(store.ok()) << store.status();
      ASSERT_TRUE((*store)->Commit(BatchOfRows(**store)).ok());
      memory_.FailAt(call, all_later());
      committed = (*store)->Commit(BatchOfRows(**store));
      const bool was_failed = memory_.calls() > call;
      memory_.Heal();
      if (!was_failed) {
        ASSERT_TRUE(committed.ok()) << committed;
        EXPECT_GT(failed, 0);
        return;
      }
      if (!committed.ok()) {
        ++failed;
        EXPECT_TRUE(absl::IsResourceExhausted(committed)) << committed;
      }
    }
    auto store = Store::Open(path);
    ASSERT_TRUE(store.ok()) << store.status() << ", allocation " << call;
    EXPECT_TRUE((*store)->GetJob(2).ok());
    const bool third = (*store)->GetJob(3).ok();
    EXPECT_EQ(third, (*store)->GetJob(4).ok()) << "half a batch";
    if (committed.ok()) {
      EXPECT_TRUE(third) << "acknowledged and lost";
    }
  }
}

// Returns whether SQLite reads a null pointer when memory fails for good during
// quick_check, as 3.46 does (sqlite3BlobCompare).
bool CheckNeedsMemory() { return sqlite3_libversion_number() / 1000 == 3046; }

TEST_P(MemoryFaultTest, AnOpenSucceedsOrSaysWhyAndLosesNothing) {
  if (all_later() && CheckNeedsMemory()) {
    GTEST_SKIP() << "SQLite " << sqlite3_libversion()
                 << " crashes in quick_check without memory";
  }
  {
    auto store = Store::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Commit(BatchOfRows(**store)).ok());
  }
  for (int call = 0;; ++call) {
    ASSERT_LT(call, kMost) << "it was never opened";
    memory_.FailAt(call, all_later());
    {
      const auto store = Store::Open(path_);
      const bool was_failed = memory_.calls() > call;
      memory_.Heal();
      if (!was_failed) {
        ASSERT_TRUE(store.ok()) << store.status();
        break;
      }
      // The database is not damaged, and the error must not say so.
      EXPECT_FALSE(absl::IsDataLoss(store.status())) << store.status();
    }
    auto again = Store::Open(path_);
    ASSERT_TRUE(again.ok()) << again.status() << ", allocation " << call;
    ASSERT_TRUE((*again)->GetJob(2).ok());
  }
}

TEST_P(MemoryFaultTest, AReadSaysThatItFailedAndTheNextOneSucceeds) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Commit(BatchOfRows(**store)).ok());
  for (int call = 0;; ++call) {
    ASSERT_LT(call, kMost) << "it was never read";
    memory_.FailAt(call, all_later());
    const auto job = (*store)->GetJob(1);
    const auto list = (*store)->ListJobs({});
    const bool was_failed = memory_.calls() > call;
    memory_.Heal();
    EXPECT_FALSE(absl::IsNotFound(job.status())) << job.status();
    if (list.ok()) {
      EXPECT_EQ(list->jobs_size(), 2);
    }
    ASSERT_TRUE((*store)->GetJob(1).ok()) << "allocation " << call;
    if (!was_failed) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, MemoryFaultTest, ::testing::Bool(),
                         [](const auto& all_later) {
                           return all_later.param ? "FromThenOn" : "Once";
                         });

}  // namespace
}  // namespace gpupool::server
