#include "server/store/lost_database.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "SQLiteCpp/SQLiteCpp.h"
#include "absl/time/clock.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LostDatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(blobs_); }

  absl::Status Start() const {
    return OpenStoreOf(folder_.path(), {}, absl::Now()).status();
  }
  // Starts for the first time, and commits a job with its id.
  void Use() const {
    auto store = OpenStoreOf(folder_.path(), {}, absl::Now());
    ASSERT_TRUE(store.ok()) << store.status();
    v1::Job job;
    job.set_id((*store)->AllocateId(IdKind::kJob));
    ASSERT_TRUE((*store)->Commit({.upsert_jobs = {job}}).ok());
  }
  // Adds a blob that was written two hours ago, or now.
  void AddBlob(bool old = true) const {
    const std::string path = blobs_ + "/" + std::string(64, 'a');
    std::ofstream(path) << "weights";
    if (!old) return;
    std::filesystem::last_write_time(
        path, std::filesystem::last_write_time(path) - std::chrono::hours(2));
  }
  void RemoveDatabase() const {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::filesystem::remove(database_ + suffix);
    }
  }
  void DeleteAllRows() const {
    SQLite::Database database(database_, SQLite::OPEN_READWRITE);
    for (const char* table : {"jobs", "ids", "counters"}) {
      database.exec(std::string("DELETE FROM ") + table);
    }
  }

  TempDir folder_;
  const std::string database_ = folder_ / "gpupool.db";
  const std::string blobs_ = folder_ / "blobs";
};

TEST_F(LostDatabaseTest, ANewFolderAndOneInUseStart) {
  EXPECT_TRUE(Start().ok());
  EXPECT_FALSE(std::filesystem::exists(database_ + "-used"));
  Use();
  EXPECT_TRUE(std::filesystem::exists(database_ + "-used"));
  AddBlob();
  EXPECT_TRUE(Start().ok()) << Start();
}

TEST_F(LostDatabaseTest, AMissingDatabaseIsRefusedAndNotMadeAnew) {
  Use();
  RemoveDatabase();
  const absl::Status refused = Start();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("is missing"), HasSubstr("-used exists"),
                    HasSubstr("--check"), HasSubstr("begin anew")));
  EXPECT_FALSE(std::filesystem::exists(database_));
}

TEST_F(LostDatabaseTest, AnEmptiedDatabaseIsRefused) {
  Use();
  DeleteAllRows();
  EXPECT_THAT(std::string(Start().message()), HasSubstr("is empty"));
  std::ofstream(database_, std::ios::trunc).close();
  EXPECT_THAT(std::string(Start().message()), HasSubstr("is empty"));
}

TEST_F(LostDatabaseTest, BlobsFromBeforeAreEvidenceToo) {
  Use();
  AddBlob();
  RemoveDatabase();
  std::filesystem::remove(database_ + "-used");
  EXPECT_THAT(std::string(Start().message()),
              HasSubstr("has 1 files from before"));
}

// A server may be killed between the first blob and its row.
TEST_F(LostDatabaseTest, ABlobThatIsYoungerThanAnEmptyDatabaseIsNoEvidence) {
  EXPECT_TRUE(Start().ok());
  AddBlob(/*old=*/false);
  EXPECT_TRUE(Start().ok()) << Start();
}

TEST_F(LostDatabaseTest, WhoMovesTheEvidenceAwayBeginsAnew) {
  Use();
  AddBlob();
  RemoveDatabase();
  std::filesystem::remove(database_ + "-used");
  std::filesystem::rename(blobs_, blobs_ + "-old");
  EXPECT_TRUE(Start().ok()) << Start();
}

TEST_F(LostDatabaseTest, ADatabaseOfAnEarlierVersionHasNoBegin) {
  Use();
  SQLite::Database(database_, SQLite::OPEN_READWRITE)
      .exec("DELETE FROM counters");
  const auto store = OpenStoreOf(folder_.path(), {}, absl::Now());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*(*store)->GetCounter(kBeginCounter), 0u);
}

TEST_F(LostDatabaseTest, DamageIsLeftToTheStoreToName) {
  std::ofstream(database_) << std::string(8192, 'x');
  EXPECT_TRUE(absl::IsDataLoss(Start())) << Start();
}

}  // namespace
}  // namespace gpupool::server
