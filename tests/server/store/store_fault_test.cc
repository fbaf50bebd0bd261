// The store on a disk that fails, and in a process that is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/store.h"
#include "tests/server/store/faulty_vfs.h"
#include "tests/server/store/large_job.h"
#include "tests/server/store/temp_dir.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

// Returns two jobs and an event. Either all or none may be stored.
WriteBatch BatchOf(Store& store) {
  WriteBatch batch;
  batch.upsert_jobs.push_back(JobWithId(store.AllocateId(IdKind::kJob)));
  batch.upsert_jobs.push_back(JobWithId(store.AllocateId(IdKind::kJob)));
  v1::JobEvent event;
  event.set_job_id(batch.upsert_jobs[0].id());
  event.set_sequence(1);
  batch.append_events.push_back(event);
  return batch;
}

class StoreFaultTest : public ::testing::TestWithParam<int> {};

TEST_P(StoreFaultTest, FailureAtAnyWriteOrSyncLosesNoAcknowledgedBatch) {
  for (int call = 0;; ++call) {
    ASSERT_LT(call, 200) << "the commit never succeeded";
    TempDir directory;
    const std::string path = directory / "gpupool.db";
    bool acknowledged = false;
    {
      FaultyVfs vfs;
      auto store = Store::Open(path);
      ASSERT_TRUE(store.ok()) << store.status();
      ASSERT_TRUE((*store)->Commit(BatchOf(**store)).ok());
      vfs.FailFrom(call, GetParam());
      acknowledged = (*store)->Commit(BatchOf(**store)).ok();
      EXPECT_EQ(acknowledged, vfs.calls() <= call) << "fault at " << call;
      vfs.Heal();
      if (!acknowledged) {
        EXPECT_FALSE((*store)->Commit(BatchOf(**store)).ok())
            << "a store that failed once must refuse";
      }
    }
    auto store = Store::Open(path);
    ASSERT_TRUE(store.ok()) << store.status() << ", fault at " << call;
    EXPECT_TRUE((*store)->GetJob(1).ok());
    EXPECT_TRUE((*store)->GetJob(2).ok());
    const bool third = (*store)->GetJob(3).ok();
    EXPECT_EQ(third, (*store)->GetJob(4).ok()) << "half a batch";
    EXPECT_EQ(third, *(*store)->LastEventSequence(3) == 1) << "half a batch";
    if (!acknowledged) continue;
    EXPECT_TRUE(third) << "an acknowledged batch is lost";
    EXPECT_GT(call, 3) << "no write was ever failed";
    return;
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, StoreFaultTest,
                         ::testing::Values(SQLITE_IOERR_WRITE, SQLITE_FULL));

// The fault goes away, but the store still refuses.
TEST_P(StoreFaultTest, FaultThatGoesAwayIsNotTriedAgain) {
  for (bool short_writes : {false, true}) {
    for (int call = 0; call < 20; ++call) {
      TempDir directory;
      FaultyVfs vfs;
      if (short_writes) vfs.ShortWrites();
      auto store = Store::Open(directory / "gpupool.db");
      ASSERT_TRUE(store.ok()) << store.status();
      vfs.FailOnce(call, GetParam());
      const bool acknowledged = (*store)->Commit(BatchOf(**store)).ok();
      EXPECT_EQ(acknowledged, vfs.calls() <= call) << "fault at " << call;
      EXPECT_EQ((*store)->Commit(BatchOf(**store)).ok(), acknowledged);
      EXPECT_EQ((*store)->GetJob(1).ok(), acknowledged);
    }
  }
}

TEST(StoreFullTest, AFullDiskTakesTheReserveAndRefusesWhatIsNew) {
  for (int call = 0; call < 3; ++call) {
    TempDir directory;
    FaultyVfs vfs;
    auto store = Store::Open(directory / "gpupool.db", {1 << 20});
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->CheckRoom().ok());
    vfs.FailOnce(call, SQLITE_FULL);
    const absl::Status committed = (*store)->Commit(BatchOf(**store));
    ASSERT_TRUE(committed.ok()) << committed;
    EXPECT_TRUE((*store)->GetJob(2).ok());
    const absl::Status refused = (*store)->CheckRoom();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_NE(refused.ToString().find(directory.path()), std::string::npos);
    // There is free space again.
    (*store)->LookAtDisk(absl::Now());
    EXPECT_TRUE((*store)->CheckRoom().ok());
    EXPECT_EQ(std::filesystem::file_size(directory / "gpupool.db-reserve"),
              1 << 20);
  }
}

TEST(StoreFullTest, WithoutReserveOrWhenItIsUsedUpTheStoreFails) {
  for (uint64_t reserve : {0, 1 << 20}) {
    TempDir directory;
    FaultyVfs vfs;
    auto store = Store::Open(directory / "gpupool.db", {reserve});
    ASSERT_TRUE(store.ok()) << store.status();
    vfs.FailFrom(0, SQLITE_FULL);
    EXPECT_TRUE(absl::IsResourceExhausted((*store)->Commit(BatchOf(**store))));
  }
}

// We move the log into the database ourselves, because SQLite would hide the
// error.
TEST(StoreCheckpointTest, ADatabaseFileThatDoesNotSyncFailsTheStore) {
  TempDir directory;
  FaultyVfs vfs;
  auto store = Store::Open(directory / "gpupool.db");
  ASSERT_TRUE(store.ok()) << store.status();
  vfs.FailSyncsOf(directory / "gpupool.db");
  int batches = 0;
  while (batches < 1000 && (*store)->Commit(BatchOf(**store)).ok()) ++batches;
  EXPECT_GT(batches, 10) << "the log itself did not fail";
  EXPECT_LT(batches, 1000) << "the failed sync went unnoticed";
}

// Commits for ever and sends each committed id through `acknowledged`.
[[noreturn]] void CommitForEver(const std::string& path, int acknowledged) {
  auto store = Store::Open(path);
  if (!store.ok()) _exit(2);
  while (true) {
    const WriteBatch batch = BatchOf(**store);
    if (!(*store)->Commit(batch).ok()) _exit(3);
    const uint64_t id = batch.upsert_jobs[1].id();
    if (write(acknowledged, &id, sizeof(id)) != sizeof(id)) _exit(4);
  }
}

TEST(StoreKillTest, KilledProcessLosesNoAcknowledgedJobAndReusesNoId) {
  TempDir directory;
  const std::string path = directory / "gpupool.db";
  uint64_t last = 0;
  for (int round = 0; round < 8; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) CommitForEver(path, pipe_ends[1]);
    close(pipe_ends[1]);
    // The first answer shows that the process works. The kill then comes at a
    // different moment in each round.
    uint64_t id = 0;
    ASSERT_EQ(read(pipe_ends[0], &id, sizeof(id)), ssize_t{sizeof(id)});
    EXPECT_GT(id, last) << "an id was given again";
    last = id;
    LetOthersRun(absl::Milliseconds(3 * round + 1));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(pipe_ends[0], &id, sizeof(id)) == ssize_t{sizeof(id)}) {
      last = id;
    }
    close(pipe_ends[0]);
    auto store = Store::Open(path);
    ASSERT_TRUE(store.ok()) << store.status();
    for (uint64_t job = 1; job <= last; ++job) {
      ASSERT_TRUE((*store)->GetJob(job).ok()) << "job " << job << " is lost";
    }
    last = (*store)->AllocateId(IdKind::kJob) - 1;
  }
}

}  // namespace
}  // namespace gpupool::server
