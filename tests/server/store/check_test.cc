#include "server/store/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>

#include "SQLiteCpp/SQLiteCpp.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "server/store/events_kept.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

constexpr int kJobs = 16;

class CheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = Store::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < kJobs; ++i) {
      WriteBatch batch;
      v1::Job& job = batch.upsert_jobs.emplace_back();
      job.set_id((*store)->AllocateId(IdKind::kJob));
      job.set_request_id(absl::StrCat("request-", i));
      job.set_state(v1::QUEUED);
      job.set_waiting_reason(std::string(500, 'w'));
      for (int sequence = 1; sequence <= 3; ++sequence) {
        v1::JobEvent& event = batch.append_events.emplace_back();
        event.set_job_id(job.id());
        event.set_sequence(sequence);
      }
      ASSERT_TRUE((*store)->Commit(batch).ok());
    }
  }

  std::string ProblemsAfter(const std::string& sql) {
    SQLite::Database(path_, SQLite::OPEN_READWRITE).exec(sql);
    return Problems();
  }
  std::string Problems() {
    const auto report = CheckDatabase(path_);
    if (!report.ok()) return report.status().ToString();
    return absl::StrJoin(report->problems, "; ");
  }

  TempDir directory_;
  std::string path_ = directory_ / "gpupool.db";
};

TEST_F(CheckTest, SoundDatabaseHasNoProblemAndItsRowsAreCounted) {
  const auto report = CheckDatabase(path_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->problems, std::vector<std::string>());
  EXPECT_EQ(report->rows.at("jobs"), kJobs);
  EXPECT_EQ(report->rows.at("job_events"), 3 * kJobs);
}

TEST_F(CheckTest, TwoReservationsOfADeviceAtATimeAreAProblem) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  const auto add = [&](int from, int until, int cancelled = 0) {
    v1::Reservation row;
    row.set_id((*store)->AllocateId(IdKind::kReservation));
    row.set_request_id(absl::StrCat("r", row.id()));
    row.add_devices("cpu:0");
    row.mutable_start_time()->set_seconds(from);
    row.mutable_end_time()->set_seconds(until);
    if (cancelled > 0) row.mutable_cancel_time()->set_seconds(cancelled);
    ASSERT_TRUE((*store)->Commit({.upsert_reservations = {row}}).ok());
  };
  add(10, 20);
  add(20, 30);
  add(15, 25, 5);   // never began
  add(30, 90, 40);  // ended early
  add(40, 50);
  EXPECT_EQ(Problems(), "");
  add(45, 60);
  EXPECT_EQ(Problems(), "reservations 5 and 6 have cpu:0 at a time");
}

TEST_F(CheckTest, MeasurementsOfAnotherDeviceAreAProblem) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  v1::DeviceBench bench;
  bench.set_device("cpu:0");
  ASSERT_TRUE(
      (*store)->Commit({.set_device_benches = {{"cpu:0", bench}}}).ok());
  EXPECT_EQ(Problems(), "");
  ASSERT_TRUE(
      (*store)->Commit({.set_device_benches = {{"cpu:1", bench}}}).ok());
  EXPECT_EQ(Problems(),
            "row 2 of device_benches: its columns differ from what it says");
}

TEST_F(CheckTest, MayRunWhileAStoreIsOpen) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(Problems(), "");
}

TEST_F(CheckTest, CopyHoldsOneMomentWhateverIsCommittedMeanwhile) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      WriteBatch batch;
      for (const char* name : {"one", "two"}) {
        v1::Job& job = batch.upsert_jobs.emplace_back();
        job.set_id((*store)->AllocateId(IdKind::kJob));
        job.set_request_id(absl::StrCat(name, job.id()));
        job.set_state(v1::QUEUED);
      }
      ASSERT_TRUE((*store)->Commit(batch).ok());
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::string to = directory_ / absl::StrCat("copy-", i, ".db");
    ASSERT_TRUE(BackUpDatabase(path_, to).ok());
    const auto report = CheckDatabase(to);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->problems, ::testing::IsEmpty());
    EXPECT_EQ(report->rows.at("jobs") % 2, 0);
  }
}

TEST_F(CheckTest, BothEndWhenTheyAreAskedToAndNothingIsLeft) {
  std::stop_source source;
  source.request_stop();
  SQLite::Database database(path_, SQLite::OPEN_READWRITE);
  // More than one part of each kind.
  database.exec(
      "CREATE TABLE filler(bytes);"
      " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
      " WHERE i < 20000) INSERT INTO filler SELECT randomblob(500) FROM n");
  const std::string to = directory_ / "copy.db";
  EXPECT_TRUE(absl::IsCancelled(BackUpDatabase(path_, to, source.get_token())));
  EXPECT_FALSE(std::filesystem::exists(to));
  EXPECT_TRUE(
      absl::IsCancelled(CheckDatabase(path_, source.get_token()).status()));
}

TEST_F(CheckTest, RowsThatDoNotAgreeAreNamed) {
  EXPECT_EQ(ProblemsAfter("UPDATE jobs SET checksum = 1 WHERE id = 2"),
            "row 2 of jobs: its checksum differs");
}

TEST_F(CheckTest, ColumnsThatDifferAreNamed) {
  EXPECT_EQ(ProblemsAfter("UPDATE jobs SET state = 4 WHERE id = 3"),
            "row 3 of jobs: its columns differ from what it says");
}

TEST_F(CheckTest, GapsInEventsAreFound) {
  EXPECT_EQ(ProblemsAfter("DELETE FROM job_events WHERE job_id = 4 AND"
                          " sequence = 2"),
            "job 4: its events have a gap");
  EXPECT_TRUE(absl::StrContains(
      ProblemsAfter("DELETE FROM job_events WHERE job_id = 5 AND sequence = 1"),
      "job 5: its first events are gone"));
}

TEST_F(CheckTest, OldEventsMayBeThinnedAndNewOnesMayNot) {
  {
    auto store = Store::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    WriteBatch batch;
    for (uint64_t sequence = 4; sequence <= kEventsKept + 100; ++sequence) {
      v1::JobEvent& event = batch.append_events.emplace_back();
      event.set_job_id(4);
      event.set_sequence(sequence);
    }
    ASSERT_TRUE((*store)->Commit(batch).ok());
    ASSERT_TRUE((*store)->Commit({.thin_events = {{4, 1}, {4, 50}}}).ok());
  }
  EXPECT_EQ(Problems(), "");
  EXPECT_EQ(ProblemsAfter("DELETE FROM job_events WHERE job_id = 4 AND"
                          " sequence = 101"),
            "job 4: its first events are gone");
  EXPECT_EQ(ProblemsAfter("DELETE FROM job_events WHERE job_id = 4 AND"
                          " sequence = 2000"),
            "job 4: its events have a gap");
}

TEST_F(CheckTest, APathThatCannotBeLookedAtIsAnErrorOfItsOwn) {
  const std::string path = directory_ / std::string(300, 'x');
  const absl::Status status = CheckDatabase(path).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "cannot open ")) << status;
  EXPECT_FALSE(absl::IsNotFound(status)) << status;
}

TEST_F(CheckTest, IdsThatWouldBeGivenAgainAreFound) {
  EXPECT_EQ(ProblemsAfter("UPDATE ids SET last = 3"),
            "the next job would get the id of one that is there");
}

class CheckArrayTest : public CheckTest {
 protected:
  void SetUp() override {
    auto store = Store::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    WriteBatch batch;
    v1::JobArray& array = batch.insert_arrays.emplace_back();
    array.set_id((*store)->AllocateId(IdKind::kJob));
    array.set_tasks(2);
    for (uint32_t index = 0; index < array.tasks(); ++index) {
      v1::Job& job = batch.upsert_jobs.emplace_back();
      job.set_id((*store)->AllocateId(IdKind::kJob));
      job.set_array_id(array.id());
      job.set_array_index(index);
      job.set_state(v1::QUEUED);
    }
    ASSERT_TRUE((*store)->Commit(batch).ok());
  }
};

TEST_F(CheckArrayTest, ASoundOneHasNoProblem) { EXPECT_EQ(Problems(), ""); }

TEST_F(CheckArrayTest, ATaskThatIsGoneIsMissed) {
  EXPECT_EQ(ProblemsAfter("DELETE FROM jobs WHERE id = 2"),
            "array 1 has 1 of 2 tasks");
}

TEST_F(CheckArrayTest, TasksOfNoArrayAreFound) {
  EXPECT_EQ(ProblemsAfter("DELETE FROM arrays"),
            "array 1 of tasks is not there");
}

TEST_F(CheckArrayTest, AnIdOfAnArrayIsNotGivenAgain) {
  EXPECT_EQ(
      ProblemsAfter("DELETE FROM jobs; DELETE FROM arrays;"
                    "INSERT INTO arrays VALUES(9, '', '', '', 0, 0, 0,"
                    " x'', 0); UPDATE ids SET last = 8"),
      "row 1 of arrays: its columns differ from what it says; the next job "
      "would get the id of one that is there");
}

TEST_F(CheckTest, EventsOfNoJobAreFound) {
  EXPECT_TRUE(absl::StrContains(
      ProblemsAfter("PRAGMA foreign_keys = OFF; DELETE FROM jobs WHERE id = 1"),
      "a row of job_events refers to a row of jobs that is not there"));
}

TEST_F(CheckTest, WhatIsNotThereOrOfAnotherVersionIsSaid) {
  EXPECT_TRUE(absl::IsNotFound(CheckDatabase(directory_ / "none").status()));
  EXPECT_TRUE(absl::StrContains(ProblemsAfter("PRAGMA user_version = 900"),
                                "schema 900"));
}

// Flips a bit in many places. Nothing may crash, and a store then serves what
// was written, or an error.
TEST_F(CheckTest, FlippedBitsAreNeverServedAsJobs) {
  std::map<uint64_t, std::string> rows;
  {
    auto store = Store::Open(path_);
    ASSERT_TRUE(store.ok());
    for (int id = 1; id <= kJobs; ++id) {
      rows[id] = (*store)->GetJob(id)->SerializeAsString();
    }
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  int refused = 0;
  int found = 0;
  int flips = 0;
  for (size_t at = 0; at < whole.size(); at += 211) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    const std::string path = directory_ / "flipped.db";
    std::ofstream(path, std::ios::binary) << bytes;
    ++flips;
    const auto report = CheckDatabase(path);
    found += !report.ok() || !report->problems.empty();
    {
      auto store = Store::Open(path);
      if (!store.ok()) {
        ++refused;
      } else {
        for (const auto& [id, row] : rows) {
          const auto job = (*store)->GetJob(id);
          EXPECT_TRUE(!job.ok() || job->SerializeAsString() == row) << at;
        }
      }
    }
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::filesystem::remove(path + suffix);
    }
  }
  std::cout << flips << " flips: check finds " << found << ", " << refused
            << " are refused at the start\n";
  EXPECT_GT(found, flips / 10);
}

TEST_F(CheckTest, BackupIsOfOneMomentWhileTheStoreGoesOn) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  const std::string copy = directory_ / "copy.db";
  ASSERT_TRUE(BackUpDatabase(path_, copy).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(BackUpDatabase(path_, copy)));
  WriteBatch batch;
  batch.set_counters["later"] = 1;
  ASSERT_TRUE((*store)->Commit(batch).ok());
  const auto report = CheckDatabase(copy);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->problems.empty());
  EXPECT_EQ(report->rows.at("jobs"), kJobs);
  auto restored = Store::Open(copy);
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ((*restored)->GetJob(1)->SerializeAsString(),
            (*store)->GetJob(1)->SerializeAsString());
  EXPECT_EQ(*(*restored)->GetCounter("later"), 0u);
}

TEST_F(CheckTest, BackupOfNothingSaysSo) {
  EXPECT_TRUE(absl::IsNotFound(
      BackUpDatabase(directory_ / "none", directory_ / "copy.db")));
  EXPECT_TRUE(absl::IsUnavailable(BackUpDatabase(path_, "/nowhere/copy.db")));
}

}  // namespace
}  // namespace gpupool::server
