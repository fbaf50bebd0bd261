#include "audit/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "audit/audit_check.h"
#include "audit/audit_folder.h"
#include "tests/audit/audit_files.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::audit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AuditLogTest : public ::testing::Test {
 protected:
  void Open() {
    options_.count = [this](Fate fate, uint64_t records) {
      absl::MutexLock lock(&mutex_);
      counts_[fate] += records;
    };
    options_.warn = [this](const std::string& text) {
      absl::MutexLock lock(&mutex_);
      warnings_.push_back(text);
    };
    options_.now = [this] { return absl::FromUnixSeconds(now_.load()); };
    options_.files.folder = folder_;
    auto log = AuditLog::Open(options_);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }

  void Note(int count, const std::string& event) {
    for (int i = 0; i < count; ++i) log_->Note({.event = event});
  }

  // Returns the events in the files.
  std::string Text() const { return TextOf(PathOf(folder_, 1)); }

  uint64_t Counted(Fate fate) {
    absl::MutexLock lock(&mutex_);
    return counts_[fate];
  }

  std::vector<std::string> Warnings() {
    absl::MutexLock lock(&mutex_);
    return warnings_;
  }

  server::TempDir parent_;
  const std::string folder_ = parent_ / "audit";
  LogOptions options_;
  std::atomic<int64_t> now_ = 1'700'000'000;  // seconds
  absl::Mutex mutex_;
  std::map<Fate, uint64_t> counts_;
  std::vector<std::string> warnings_;
  std::unique_ptr<AuditLog> log_;
};

TEST_F(AuditLogTest, StartCallsAndStopAreWritten) {
  Open();
  Note(3, "call");
  ASSERT_TRUE(log_->Flush().ok());
  EXPECT_EQ(CheckLog(folder_, "")->records, 4u);
  log_.reset();
  EXPECT_EQ(CheckLog(folder_, "")->records, 5u);
  EXPECT_THAT(LastLines(folder_, 1)->front(), HasSubstr("\"event\":\"stop\""));
  EXPECT_EQ(Counted(Fate::kWritten), 5u);
  EXPECT_EQ(Counted(Fate::kLost), 0u);
}

TEST_F(AuditLogTest, ATornLineIsToldOfInTheLogs) {
  Open();
  log_.reset();
  SetText(PathOf(folder_, 1), Text() + "{\"sequ");
  Open();
  log_.reset();
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("the audit log was torn")));
  EXPECT_THAT(Text(), HasSubstr("\"event\":\"mended\""));
  EXPECT_EQ(CheckLog(folder_, "")->records, 5u);
}

TEST_F(AuditLogTest, ManyDenialsOfASecondAreOneNumber) {
  Open();
  Note(AuditLog::kMostDenials + 7, "denied");
  Note(1, "call");
  ++now_;
  Note(1, "denied");
  log_.reset();
  EXPECT_THAT(Text(), HasSubstr("\"note\":\"7 further calls were denied\""));
  EXPECT_EQ(Counted(Fate::kCounted), 7u);
  // Start, stop, the call, the number and the last denial.
  EXPECT_EQ(CheckLog(folder_, "")->records, AuditLog::kMostDenials + 5u);
}

TEST_F(AuditLogTest, DenialsOfAnHourAreBoundedToo) {
  Open();
  constexpr int kSeconds =
      AuditLog::kMostDenialsOfHour / AuditLog::kMostDenials;
  for (int i = 0; i < kSeconds + 2; ++i) {
    Note(AuditLog::kMostDenials, "denied");
    ASSERT_TRUE(log_->Flush().ok());
    ++now_;
  }
  EXPECT_EQ(Counted(Fate::kCounted), 2u * AuditLog::kMostDenials);
  now_ += 3600;
  Note(1, "denied");
  log_.reset();
  EXPECT_EQ(Counted(Fate::kCounted), 2u * AuditLog::kMostDenials);
  EXPECT_EQ(Counted(Fate::kLost), 0u);
}

TEST_F(AuditLogTest, WhatTheQueueCannotHoldIsLostAndCounted) {
  options_.queue_limit = 10;
  options_.files.file_bytes = 1;  // each record begins a file
  Open();
  ASSERT_TRUE(log_->Flush().ok());
  // A folder with the name of the next file is in its way.
  const std::string obstacle = PathOf(folder_, 2);
  std::filesystem::create_directory(obstacle);
  Note(25, "call");
  EXPECT_FALSE(log_->Flush().ok());
  EXPECT_EQ(Counted(Fate::kLost), 15u);
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("calls go on")));
  std::filesystem::remove(obstacle);
  EXPECT_TRUE(log_->Flush().ok());
  log_.reset();
  // Start, ten calls, the number of the lost ones, stop.
  const auto report = CheckLog(folder_, "");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->records, 13u);
  EXPECT_THAT(Warnings().back(), HasSubstr("written again"));
  const auto lines = LastLines(folder_, 13);
  ASSERT_TRUE(lines.ok()) << lines.status();
  bool told = false;
  for (const std::string& line : *lines) {
    told = told || line.find("15 records were lost") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST_F(AuditLogTest, WhatAStopCannotWriteIsToldOfAtTheNextStart) {
  options_.files.file_bytes = 1;  // each record begins a file
  Open();
  ASSERT_TRUE(log_->Flush().ok());
  const std::string obstacle = PathOf(folder_, 2);
  std::filesystem::create_directory(obstacle);
  Note(3, "call");
  log_.reset();
  EXPECT_THAT(Warnings().back(), HasSubstr("4 records are lost"))
      << "the calls and the stop";
  EXPECT_EQ(Counted(Fate::kLost), 4u);
  std::filesystem::remove(obstacle);
  for (int start = 0; start < 2; ++start) {
    Open();
    log_.reset();
  }
  const auto report = CheckLog(folder_, "");
  ASSERT_TRUE(report.ok()) << report.status();
  const auto lines = LastLines(folder_, 100);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 6u) << "one record of the number, and no second one";
  EXPECT_THAT((*lines)[1], HasSubstr("\"4 records were lost at the last stop"));
  EXPECT_THAT((*lines)[2], HasSubstr("\"event\":\"start\""));
}

TEST_F(AuditLogTest, AFileThatIsRemovedInUseIsARecordOfTheNextOne) {
  Open();
  Note(2, "call");
  ASSERT_TRUE(log_->Flush().ok());
  std::filesystem::remove(PathOf(folder_, 1));
  Note(1, "call");
  ASSERT_TRUE(log_->Flush().ok());
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("audit-00000001.jsonl was "
                                                "removed or replaced")));
  EXPECT_EQ(Counted(Fate::kLost), 3u);
  log_.reset();
  EXPECT_EQ(Counted(Fate::kLost), 3u);
  const auto report = CheckLog(folder_, "");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->first_sequence, 4u);
  EXPECT_EQ(report->records, 3u) << "the call, the loss, the stop";
  EXPECT_THAT(TextOf(PathOf(folder_, 2)), HasSubstr("3 records, 1 to 3"));
}

}  // namespace
}  // namespace gpupool::audit
