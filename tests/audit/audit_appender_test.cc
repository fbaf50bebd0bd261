#include "audit/audit_appender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "audit/audit_check.h"
#include "audit/audit_folder.h"
#include "tests/audit/audit_files.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::audit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AuditAppenderTest : public ::testing::Test {
 protected:
  std::unique_ptr<AuditAppender> Open() {
    auto appender = AuditAppender::Open(options_);
    EXPECT_TRUE(appender.ok()) << appender.status();
    return appender.ok() ? *std::move(appender) : nullptr;
  }

  void Append(int count) {
    const auto appender = Open();
    ASSERT_NE(appender, nullptr);
    auto records = SomeRecords(count);
    EXPECT_TRUE(appender->Append(&records).ok());
    EXPECT_TRUE(appender->Sync().ok());
    EXPECT_TRUE(records.empty());
  }

  void ExpectWhole(uint64_t first, uint64_t last) {
    const auto report = CheckLog(folder_, "");
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->first_sequence, first);
    EXPECT_EQ(report->last_sequence, last);
    EXPECT_EQ(report->torn_bytes, 0u);
  }

  server::TempDir parent_;
  const std::string folder_ = parent_ / "audit";
  AppenderOptions options_ = {.folder = folder_};
};

TEST_F(AuditAppenderTest, RecordsOfSeveralStartsAreOneChain) {
  Append(3);
  Append(2);
  ExpectWhole(1, 5);
}

TEST_F(AuditAppenderTest, OnlyTheOwnerMayReadTheFiles) {
  Append(1);
  struct stat facts = {};
  ASSERT_EQ(::stat(PathOf(folder_, 1).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(folder_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

TEST_F(AuditAppenderTest, FullFilesAreFollowedAndTheOldestDeleted) {
  options_.file_bytes = 500;  // a few records
  options_.files = 3;
  Append(100);
  const auto files = FilesIn(folder_);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 3u);
  for (const AuditFile& file : *files) {
    EXPECT_LE(std::filesystem::file_size(file.path), 500u);
  }
  const auto report = CheckLog(folder_, "");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->first_sequence, 1u);
  EXPECT_EQ(report->last_sequence, 100u);
}

TEST_F(AuditAppenderTest, ARecordLargerThanAFileHasAFileOfItsOwn) {
  options_.file_bytes = 10;
  options_.files = 100;
  Append(4);
  EXPECT_EQ(FilesIn(folder_)->size(), 4u);
  ExpectWhole(1, 4);
}

TEST_F(AuditAppenderTest, ATornLineIsRemovedInWords) {
  Append(2);
  const std::string path = PathOf(folder_, 1);
  const std::string whole = TextOf(path);
  SetText(path, whole + "{\"sequence\":3,\"ti");
  const auto appender = Open();
  ASSERT_NE(appender, nullptr);
  EXPECT_THAT(appender->mended(),
              AllOf(HasSubstr("removed 17 bytes"),
                    HasSubstr("audit-00000001.jsonl"), HasSubstr("sequence")));
  EXPECT_EQ(TextOf(path), whole);
  EXPECT_EQ(appender->next_sequence(), 3u);
}

TEST_F(AuditAppenderTest, ZerosOfAPowerLossAreATornLineToo) {
  Append(2);
  const std::string path = PathOf(folder_, 1);
  SetText(path, TextOf(path) + std::string(4096, '\0'));
  Append(1);
  ExpectWhole(1, 3);
}

TEST_F(AuditAppenderTest, ATornTailOfAnyLengthIsRemoved) {
  for (const size_t zeros : {size_t{40'000}, size_t{65'519}, size_t{65'536},
                             size_t{200'000}, size_t{3'000'000}}) {
    Append(2);
    const std::string path = PathOf(folder_, 1);
    const std::string whole = TextOf(path);
    SetText(path, whole + "{\"sequence\":99999," + std::string(zeros, '\0'));
    const auto torn = CheckLog(folder_, "");
    ASSERT_TRUE(torn.ok()) << torn.status();
    EXPECT_EQ(torn->torn_bytes, zeros + 18);
    const auto appender = Open();
    ASSERT_NE(appender, nullptr) << zeros;
    EXPECT_EQ(TextOf(path), whole);
    EXPECT_THAT(appender->mended(),
                HasSubstr("removed " + std::to_string(zeros + 18) + " bytes"));
  }
  ExpectWhole(1, 10);
}

TEST_F(AuditAppenderTest, AFileWithoutAWholeLineIsEmpty) {
  Append(2);
  SetText(PathOf(folder_, 2), std::string(200'000, '\0'));
  Append(1);
  ExpectWhole(1, 3);
}

TEST_F(AuditAppenderTest, AnEmptyNewestFileFollowsTheOneBefore) {
  Append(2);
  SetText(PathOf(folder_, 2), "");
  Append(1);
  ExpectWhole(1, 3);
}

TEST_F(AuditAppenderTest, NothingFollowsADamagedRecord) {
  Append(2);
  const std::string path = PathOf(folder_, 1);
  SetText(path, TextOf(path) + "damage\n");
  const auto appender = AuditAppender::Open(options_);
  EXPECT_EQ(appender.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(appender.status().message()),
              AllOf(HasSubstr(path), HasSubstr("--audit off")));
}

TEST_F(AuditAppenderTest, NoRecordGoesIntoAPipeOrALink) {
  std::filesystem::create_directory(folder_);
  ASSERT_EQ(::mkfifo(PathOf(folder_, 1).c_str(), 0600), 0);
  EXPECT_THAT(std::string(AuditAppender::Open(options_).status().message()),
              HasSubstr("it is a pipe"));
  std::filesystem::remove(PathOf(folder_, 1));
  std::filesystem::create_symlink("elsewhere", PathOf(folder_, 1));
  EXPECT_THAT(std::string(AuditAppender::Open(options_).status().message()),
              HasSubstr("symbolic link"));
}

TEST_F(AuditAppenderTest, AFileThatIsGoneIsFollowedByANewOne) {
  Append(2);
  const auto appender = Open();
  ASSERT_NE(appender, nullptr);
  const auto append = [&](int count) {
    auto records = SomeRecords(count);
    EXPECT_TRUE(appender->Append(&records).ok());
  };
  const auto expect_gone = [&](const char* name, uint64_t first,
                               uint64_t last) {
    const auto gone = appender->TakeGone();
    ASSERT_EQ(gone.size(), 1u) << name;
    EXPECT_EQ(gone[0].name, name);
    EXPECT_EQ(gone[0].first, first);
    EXPECT_EQ(gone[0].last, last);
  };
  append(1);
  EXPECT_TRUE(appender->TakeGone().empty());
  std::filesystem::remove(PathOf(folder_, 1));
  append(2);
  expect_gone("audit-00000001.jsonl", 1, 3);
  ExpectWhole(4, 5);
  // Replaced by a copy, and noticed at the sync.
  const std::string path = PathOf(folder_, 2);
  const std::string text = TextOf(path);
  std::filesystem::rename(path, parent_ / "moved");
  SetText(path, text);
  EXPECT_TRUE(appender->Sync().ok());
  expect_gone("audit-00000002.jsonl", 4, 5);
  append(1);
  ExpectWhole(4, 6);
  std::filesystem::remove_all(folder_);
  EXPECT_TRUE(appender->Sync().ok());
  expect_gone("audit-00000003.jsonl", 6, 6);
  append(1);
  ExpectWhole(7, 7);
}

// Limits the size of files that this process writes, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_ = {};
  void (*old_handler_)(int) = nullptr;
};

TEST_F(AuditAppenderTest, WhatAFullDiskRefusesIsWrittenLater) {
  const auto appender = Open();
  ASSERT_NE(appender, nullptr);
  auto records = SomeRecords(2);
  ASSERT_TRUE(appender->Append(&records).ok());
  const std::string before = TextOf(PathOf(folder_, 1));
  records = SomeRecords(50);
  {
    // Room for a part of the lines, so that the write is cut short.
    const FileSizeLimit limit(before.size() + 100);
    EXPECT_EQ(appender->Append(&records).code(),
              absl::StatusCode::kUnavailable);
    EXPECT_EQ(records.size(), 50u);
    EXPECT_EQ(TextOf(PathOf(folder_, 1)), before);
    EXPECT_FALSE(appender->Append(&records).ok());
  }
  EXPECT_TRUE(appender->Append(&records).ok());
  EXPECT_TRUE(records.empty());
  ExpectWhole(1, 52);
}

}  // namespace
}  // namespace gpupool::audit
