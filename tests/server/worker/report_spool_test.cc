#include "server/worker/report_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using worker::v1::Report;

class ReportSpoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/spoolXXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/spool";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ReportSpool Open(uint64_t now_micros = 1000) {
    auto spool = ReportSpool::Open(path_, now_micros);
    EXPECT_TRUE(spool.ok()) << spool.status();
    return *std::move(spool);
  }
  static uint64_t Add(ReportSpool* spool, uint64_t job, bool progress = false) {
    Report report;
    report.set_job_id(job);
    if (progress) {
      report.mutable_progress()->set_step(job);
    } else {
      report.mutable_started()->set_total_steps(3);
    }
    EXPECT_TRUE(spool->Add(&report).ok());
    return report.sequence();
  }

  std::string folder_;
  std::string path_;
};

TEST_F(ReportSpoolTest, UnacknowledgedReportsSurviveTheProcess) {
  {
    ReportSpool spool = Open();
    Add(&spool, 1);
    Add(&spool, 2);
  }
  ReportSpool spool = Open();
  ASSERT_EQ(spool.reports().size(), 2u);
  EXPECT_EQ(spool.reports()[1].job_id(), 2u);
}

TEST_F(ReportSpoolTest, ALargeReportHidesNoneBehindIt) {
  {
    ReportSpool spool = Open();
    Report large;
    large.mutable_ended()->mutable_error()->set_message(
        std::string(size_t{2} << 20, 'x'));
    EXPECT_TRUE(spool.Add(&large).ok());
    Add(&spool, 2);
  }
  EXPECT_EQ(Open().reports().size(), 2u);
}

TEST_F(ReportSpoolTest, AcknowledgedReportsAreForgotten) {
  ReportSpool spool = Open();
  const uint64_t first = Add(&spool, 1);
  Add(&spool, 2);
  spool.Acknowledge(first);
  ASSERT_EQ(spool.reports().size(), 1u);
  EXPECT_EQ(spool.reports()[0].job_id(), 2u);
  spool.Acknowledge(first + 1);
  EXPECT_TRUE(spool.reports().empty());
  EXPECT_EQ(spool.file_bytes(), 0u);
  EXPECT_EQ(std::filesystem::file_size(path_), 0u);
}

TEST_F(ReportSpoolTest, SequenceRisesAcrossStartsAndLostFiles) {
  uint64_t last = 0;
  {
    ReportSpool spool = Open(1000);
    last = Add(&spool, 1);
    EXPECT_GE(last, 1000u);
    spool.Acknowledge(last + 50);
    EXPECT_GT(Add(&spool, 1), last + 50);
    last = Add(&spool, 1);
  }
  {
    ReportSpool spool = Open(500);  // the clock was set back
    EXPECT_GT(Add(&spool, 2), last);
  }
  ::unlink(path_.c_str());
  ReportSpool spool = Open(2000);
  EXPECT_GE(Add(&spool, 2), 2000u);
}

TEST_F(ReportSpoolTest, RecordCutShortEndsTheSpool) {
  {
    ReportSpool spool = Open();
    Add(&spool, 1);
    Add(&spool, 2);
  }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  {
    ReportSpool spool = Open();
    ASSERT_EQ(spool.reports().size(), 1u);
    Add(&spool, 3);
  }
  ReportSpool spool = Open();
  ASSERT_EQ(spool.reports().size(), 2u);
  EXPECT_EQ(spool.reports()[1].job_id(), 3u);
}

TEST_F(ReportSpoolTest, DamagedRecordEndsTheSpool) {
  uint64_t good_bytes = 0;
  {
    ReportSpool spool = Open();
    Add(&spool, 1);
    good_bytes = spool.file_bytes();
    Add(&spool, 2);
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(good_bytes) + 9);
    file.put('\x7f');
  }
  ReportSpool spool = Open();
  ASSERT_EQ(spool.reports().size(), 1u);
  EXPECT_EQ(std::filesystem::file_size(path_), good_bytes);
}

TEST_F(ReportSpoolTest, ProgressIsThinnedAndNothingElseIs) {
  ReportSpool spool = Open();
  const size_t count = 3 * ReportSpool::kMaxProgress;
  for (size_t i = 1; i <= count; ++i) {
    Add(&spool, i, /*progress=*/true);
    if (i % 1000 == 0) Add(&spool, i);
  }
  size_t progress = 0;
  size_t events = 0;
  uint64_t last = 0;
  for (const Report& report : spool.reports()) {
    ++(report.has_progress() ? progress : events);
    EXPECT_GT(report.sequence(), last);
    last = report.sequence();
  }
  EXPECT_LE(progress, ReportSpool::kMaxProgress);
  EXPECT_EQ(events, count / 1000);
  EXPECT_EQ(spool.reports().back().job_id(), count);  // the newest stays
  EXPECT_EQ(Open().reports().size(), spool.reports().size());
}

TEST_F(ReportSpoolTest, FileDoesNotGrowForEver) {
  ReportSpool spool = Open();
  uint64_t last = 0;
  for (int i = 0; i < 100000; ++i) {
    last = Add(&spool, 1, /*progress=*/true);
    if (i % 100 == 0) spool.Acknowledge(last - 1);
    ASSERT_LE(spool.file_bytes(), ReportSpool::kCompactBytes + 4096);
  }
}

TEST_F(ReportSpoolTest, FolderThatDoesNotExistIsAnError) {
  EXPECT_EQ(ReportSpool::Open(folder_ + "/no/spool", 1).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpupool::server
