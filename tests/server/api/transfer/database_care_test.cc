#include "server/api/transfer/database_care.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "SQLiteCpp/SQLiteCpp.h"
#include "absl/synchronization/notification.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

class DatabaseCareTest : public ::testing::Test {
 protected:
  absl::StatusOr<CheckReport> Check(DatabaseCare& care) {
    absl::StatusOr<CheckReport> report;
    absl::Notification done;
    const absl::Status begun =
        care.Check([&](absl::StatusOr<CheckReport> result) {
          report = std::move(result);
          done.Notify();
        });
    if (!begun.ok()) return begun;
    done.WaitForNotification();
    return report;
  }

  TempDir directory_;
  const std::string path_ = directory_ / "gpupool.db";
};

TEST_F(DatabaseCareTest, OneIsAtWorkAndTheNextMayBeginInItsAnswer) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  DatabaseCare care(path_);
  absl::Notification first;
  absl::Notification seen;
  ASSERT_TRUE(care.Copy([&](const absl::StatusOr<BlobFile>& file) {
                    EXPECT_TRUE(file.ok()) << file.status();
                    first.Notify();
                    seen.WaitForNotification();
                  })
                  .ok());
  first.WaitForNotification();
  seen.Notify();
  const auto report = Check(care);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->problems.empty());
}

TEST_F(DatabaseCareTest, WhatIsAtWorkRefusesOthersAndEndsWithStop) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  {
    // Works for seconds, unless it is told to stop.
    SQLite::Database database(path_, SQLite::OPEN_READWRITE);
    database.exec(
        "CREATE TABLE filler(bytes);"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 100000) INSERT INTO filler SELECT randomblob(500) FROM n;"
        " CREATE INDEX filler_bytes ON filler(bytes)");
  }
  DatabaseCare care(path_);
  std::atomic<int> answers = 0;
  int refused = 0;
  while (refused == 0) {
    const absl::Status first = care.Check([&](const auto&) { ++answers; });
    const absl::Status second = care.Check([&](const auto&) { ++answers; });
    ASSERT_TRUE(first.ok() || absl::IsResourceExhausted(first)) << first;
    refused += absl::IsResourceExhausted(second) ? 1 : 0;
  }
  care.Stop();
  EXPECT_GE(answers, 1);
}

TEST_F(DatabaseCareTest, WhatAKilledCopyLeftIsRemoved) {
  std::ofstream(path_ + "-copy") << "half";
  DatabaseCare care(path_);
  EXPECT_FALSE(std::filesystem::exists(path_ + "-copy"));
}

TEST_F(DatabaseCareTest, AfterStopNothingBegins) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  DatabaseCare care(path_);
  care.Stop();
  care.Stop();
  EXPECT_TRUE(absl::IsUnavailable(Check(care).status()));
}

}  // namespace
}  // namespace gpupool::server
