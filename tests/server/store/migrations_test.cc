#include "server/store/migrations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "SQLiteCpp/SQLiteCpp.h"
#include "absl/time/clock.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class MigrationsTest : public ::testing::Test {
 protected:
  void Execute(const std::string& sql) {
    SQLite::Database database(path_,
                              SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec(sql);
  }

  absl::Status Open() { return Store::Open(path_).status(); }

  void GoBackToNinthSchema() {
    Execute("DROP TABLE tokens; PRAGMA user_version = 9");
  }

  void GoBackToEighthSchema() {
    GoBackToNinthSchema();
    Execute(
        "DROP INDEX jobs_by_profiles; ALTER TABLE jobs DROP COLUMN "
        "has_profiles; PRAGMA user_version = 8");
  }

  void GoBackToSeventhSchema() {
    GoBackToEighthSchema();
    Execute("DROP TABLE device_benches; PRAGMA user_version = 7");
  }

  void GoBackToSixthSchema() {
    GoBackToSeventhSchema();
    Execute("DROP TABLE reservations; PRAGMA user_version = 6");
  }

  void GoBackToFourthSchema() {
    GoBackToSixthSchema();
    Execute(
        "ALTER TABLE device_settings DROP COLUMN drained;"
        "ALTER TABLE device_settings DROP COLUMN drain_reason");
    Execute(
        "DROP TABLE arrays; DROP INDEX jobs_by_array; ALTER TABLE jobs DROP "
        "COLUMN array_id; ALTER TABLE jobs DROP COLUMN array_index;"
        "PRAGMA user_version = 4");
  }

  void GoBackToSecondSchema() {
    GoBackToFourthSchema();
    Execute(
        "DROP TABLE usage; DROP INDEX jobs_by_end; ALTER TABLE jobs DROP "
        "COLUMN end_time_ns;"
        "ALTER TABLE jobs DROP COLUMN has_events; PRAGMA user_version = 2");
  }

  TempDir directory_;
  std::string path_ = directory_ / "gpupool.db";
};

TEST_F(MigrationsTest, NewFileGetsTheCurrentSchema) {
  ASSERT_TRUE(Open().ok());
  SQLite::Database database(path_);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(),
            static_cast<int>(CurrentSchemaVersion()));
}

TEST_F(MigrationsTest, OpeningAgainChangesNothing) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Open().ok());
}

TEST_F(MigrationsTest, NewerSchemaIsRefusedWithBothNumbers) {
  ASSERT_TRUE(Open().ok());
  Execute("PRAGMA user_version = 900");
  const absl::Status status = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema 900"));
}

TEST_F(MigrationsTest, FileThatIsNoDatabaseIsDataLoss) {
  std::ofstream(path_) << std::string(8192, 'x');
  EXPECT_EQ(Open().code(), absl::StatusCode::kDataLoss) << Open();
}

TEST_F(MigrationsTest, DatabaseOfAnotherProgramIsRefusedAndKept) {
  Execute("CREATE TABLE theirs(a); PRAGMA user_version = 1");
  EXPECT_EQ(Open().code(), absl::StatusCode::kDataLoss) << Open();
  SQLite::Database database(path_);
  EXPECT_TRUE(database.tableExists("theirs"));
  EXPECT_FALSE(database.tableExists("jobs"));
}

TEST_F(MigrationsTest, DamagedPageIsDataLoss) {
  ASSERT_TRUE(Open().ok());
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file.write(std::string(512, '\x5a').data(), 512);
  }
  EXPECT_EQ(Open().code(), absl::StatusCode::kDataLoss) << Open();
}

TEST_F(MigrationsTest, UnreachableFolderIsUnavailable) {
  path_ = directory_ / "missing/gpupool.db";
  EXPECT_TRUE(absl::IsUnavailable(Open())) << Open();
}

TEST_F(MigrationsTest, AFileOfTheFirstSchemaKeepsItsRowsAndGetsTheSettings) {
  {
    auto store = *Store::Open(path_);
    ASSERT_TRUE(store->Commit({.set_counters = {{"kept", 7}}}).ok());
  }
  GoBackToSecondSchema();
  Execute("DROP TABLE device_settings; PRAGMA user_version = 1");
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*(*store)->GetCounter("kept"), 7u);
  EXPECT_TRUE((*store)->Commit({.set_memory_fractions = {{"a", 0.5}}}).ok());
}

TEST_F(MigrationsTest, AFileOfTheSixthSchemaGetsReservations) {
  {
    auto store = *Store::Open(path_);
    ASSERT_TRUE(store->Commit({.set_counters = {{"kept", 7}}}).ok());
  }
  GoBackToSixthSchema();
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*(*store)->GetCounter("kept"), 7u);
  v1::Reservation reservation;
  reservation.set_id(1);
  EXPECT_TRUE((*store)->Commit({.upsert_reservations = {reservation}}).ok());
  EXPECT_EQ((*store)->LoadReservations()->size(), 1u);
}

TEST_F(MigrationsTest, AFileOfTheNinthSchemaGetsTokens) {
  {
    auto store = *Store::Open(path_);
    ASSERT_TRUE(store->Commit({.set_counters = {{"kept", 7}}}).ok());
  }
  GoBackToNinthSchema();
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*(*store)->GetCounter("kept"), 7u);
  v1::StoredToken stored;
  stored.mutable_token()->set_id(1);
  EXPECT_TRUE((*store)->Commit({.upsert_tokens = {stored}}).ok());
  EXPECT_EQ((*store)->LoadTokens()->size(), 1u);
}

TEST_F(MigrationsTest, AFileOfTheEighthSchemaFindsProfiledJobs) {
  v1::Job job;
  job.set_id(1);
  {
    auto store = *Store::Open(path_);
    ASSERT_TRUE(store->Commit({.upsert_jobs = {job}}).ok());
  }
  GoBackToEighthSchema();
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->LoadProfiledJobs()->empty());
  job.add_recorded_profiles()->set_cycle(1);
  ASSERT_TRUE((*store)->Commit({.upsert_jobs = {job}}).ok());
  ASSERT_EQ((*store)->LoadProfiledJobs()->size(), 1u);
  EXPECT_EQ((*store)->LoadProfiledJobs()->front().id(), 1u);
}

TEST_F(MigrationsTest, AFileOfTheSeventhSchemaGetsMeasurements) {
  {
    auto store = *Store::Open(path_);
    ASSERT_TRUE(store->Commit({.set_counters = {{"kept", 7}}}).ok());
  }
  GoBackToSeventhSchema();
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*(*store)->GetCounter("kept"), 7u);
  v1::DeviceBench bench;
  bench.set_device("cpu:0");
  EXPECT_TRUE(
      (*store)->Commit({.set_device_benches = {{"cpu:0", bench}}}).ok());
  EXPECT_EQ((*store)->LoadDeviceBenches()->size(), 1u);
}

TEST_F(MigrationsTest, JobsOfTheFourthSchemaAreTasksOfNoArray) {
  {
    WriteBatch batch;
    batch.upsert_jobs.emplace_back().set_id(1);
    batch.upsert_jobs.back().set_state(v1::QUEUED);
    ASSERT_TRUE((*Store::Open(path_))->Commit(batch).ok());
  }
  GoBackToFourthSchema();
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  v1::ListJobsRequest request;
  request.set_without_tasks(true);
  EXPECT_EQ((*store)->ListJobs(request)->jobs_size(), 1);
  EXPECT_EQ((*store)->ListArrays({})->arrays_size(), 0);
}

// The time of their end is unknown, so they count as ended now.
TEST_F(MigrationsTest, JobsThatHadEndedBeforeTheThirdSchemaEndNow) {
  {
    WriteBatch batch;
    batch.upsert_jobs.emplace_back().set_id(1);
    batch.upsert_jobs.back().set_state(v1::FAILED);
    ASSERT_TRUE((*Store::Open(path_))->Commit(batch).ok());
  }
  GoBackToSecondSchema();
  auto store = Store::Open(path_, {.keep_jobs = 1, .keep_job_events = 1});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->FindRetired(absl::Now())->events_of.empty());
  SQLite::Database database(path_);
  EXPECT_EQ(database
                .execAndGet("SELECT abs(end_time_ns / 1000000000 -"
                            " strftime('%s', 'now')) < 600 FROM jobs")
                .getInt(),
            1);
}

}  // namespace
}  // namespace gpupool::server
