#include "audit/audit_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "audit/audit_appender.h"
#include "audit/audit_folder.h"
#include "tests/audit/audit_files.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::audit {
namespace {

using ::testing::HasSubstr;

// A log of 20 records in several files.
class AuditCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto appender = AuditAppender::Open(
        {.folder = folder_, .file_bytes = 1000, .files = 100});
    ASSERT_TRUE(appender.ok()) << appender.status();
    auto records = SomeRecords(20);
    ASSERT_TRUE((*appender)->Append(&records).ok());
    ASSERT_GT(FilesIn(folder_)->size(), 3u);
  }

  // Returns the lines of a file, each with its line break.
  std::vector<std::string> Lines(uint64_t file) const {
    std::vector<std::string> lines;
    for (const auto& line : absl::StrSplit(TextOf(PathOf(folder_, file)), '\n',
                                           absl::SkipEmpty())) {
      lines.push_back(absl::StrCat(line, "\n"));
    }
    return lines;
  }

  void SetLines(uint64_t file, const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line;
    SetText(PathOf(folder_, file), text);
  }

  void ExpectDamage(uint64_t file, int line, const char* what) const {
    const absl::Status status = CheckLog(folder_, "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat(PathOf(folder_, file), ":", line, ": ")));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }

  server::TempDir parent_;
  const std::string folder_ = parent_ / "audit";
};

TEST_F(AuditCheckTest, AWholeChainIsReported) {
  const auto report = CheckLog(folder_, "");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->records, 20u);
  EXPECT_EQ(report->first_sequence, 1u);
  EXPECT_EQ(report->last_sequence, 20u);
  EXPECT_EQ(report->files, FilesIn(folder_)->size());
  std::string last = Lines(report->files).back();
  last.pop_back();
  EXPECT_EQ(report->last_digest, DigestOfLine(last));
}

TEST_F(AuditCheckTest, AChangedRecordIsNamed) {
  auto lines = Lines(2);
  lines[0] = absl::StrReplaceAll(lines[0], {{"id=", "id=9"}});
  SetLines(2, lines);
  ExpectDamage(2, 1, "was changed");
}

TEST_F(AuditCheckTest, AChangedLastRecordOfAFileIsFoundInTheNextOne) {
  auto lines = Lines(1);
  lines.back() = absl::StrReplaceAll(lines.back(), {{"call", "kall"}});
  SetLines(1, lines);
  ExpectDamage(1, static_cast<int>(lines.size()), "was changed");
}

TEST_F(AuditCheckTest, ARemovedRecordIsNamedByTheOneBehindIt) {
  auto lines = Lines(2);
  lines.erase(lines.begin());
  SetLines(2, lines);
  ExpectDamage(2, 1, "removed");
}

TEST_F(AuditCheckTest, TheFirstRecordOfAllIsMissed) {
  auto lines = Lines(1);
  lines.erase(lines.begin());
  SetLines(1, lines);
  ExpectDamage(1, 1, "the first record of all");
}

TEST_F(AuditCheckTest, AnotherLineIsNamed) {
  auto lines = Lines(1);
  lines[1] = "no record\n";
  SetLines(1, lines);
  ExpectDamage(1, 2, "not a JSON object");
  lines[1] = std::string(2 * kMostLineBytes, 'x') + "\n";
  SetLines(1, lines);
  ExpectDamage(1, 2, "longer than");
}

TEST_F(AuditCheckTest, AMissingFileIsFoundUnlessItIsTheOldest) {
  std::filesystem::remove(PathOf(folder_, 1));
  const auto report = CheckLog(folder_, "");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->first_sequence, 1u);
  std::filesystem::remove(PathOf(folder_, 3));
  const absl::Status status = CheckLog(folder_, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not follow"));
}

TEST_F(AuditCheckTest, ATornLineIsAllowedInTheNewestFileAlone) {
  const uint64_t newest = FilesIn(folder_)->size();
  const std::string whole = TextOf(PathOf(folder_, newest));
  SetText(PathOf(folder_, newest), whole + "{\"seq");
  const auto report = CheckLog(folder_, "");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->torn_bytes, 5u);
  EXPECT_EQ(report->torn_file, PathOf(folder_, newest));
  SetText(PathOf(folder_, newest), whole);
  SetText(PathOf(folder_, 1), TextOf(PathOf(folder_, 1)) + "{\"seq");
  EXPECT_EQ(CheckLog(folder_, "").status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(AuditCheckTest, ADigestThatWasNotedShowsThatNothingBeforeItIsGone) {
  const std::string noted = CheckLog(folder_, "")->last_digest;
  EXPECT_TRUE(CheckLog(folder_, noted).ok());
  std::filesystem::remove(PathOf(folder_, FilesIn(folder_)->size()));
  EXPECT_TRUE(CheckLog(folder_, "").ok());
  EXPECT_EQ(CheckLog(folder_, noted).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(AuditCheckTest, WhatIsNoRegularFileIsNamedAndNotRead) {
  const std::string path = PathOf(folder_, 1);
  const auto expect = [&](const char* reason) {
    for (const absl::Status& status :
         {CheckLog(folder_, "").status(), LastLines(folder_, 100).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
      EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    }
    std::filesystem::remove(path);
  };
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect("it is a pipe");
  std::filesystem::create_directory(path);
  expect("it is a folder");
  std::filesystem::create_symlink(PathOf(folder_, 2), path);
  expect("it is a symbolic link");
}

TEST_F(AuditCheckTest, AFolderWithoutALogIsNotFound) {
  EXPECT_EQ(CheckLog(parent_ / "none", "").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CheckLog(parent_.path(), "").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(AuditCheckTest, TheLastLinesCrossFiles) {
  const auto lines = LastLines(folder_, 15);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 15u);
  EXPECT_THAT(lines->front(), HasSubstr("\"id=6\""));
  EXPECT_THAT(lines->back(), HasSubstr("\"id=20\""));
  EXPECT_EQ(LastLines(folder_, 100)->size(), 20u);
}

}  // namespace
}  // namespace gpupool::audit
