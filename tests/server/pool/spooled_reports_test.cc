#include "server/pool/spooled_reports.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "server/ipc/spool_records.h"
#include "server/ipc/worker_paths.h"

namespace gpupool::server {
namespace {

using worker::v1::Report;

class SpooledReportsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "gpupoolXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    state_dir = name;
  }
  void TearDown() override { std::filesystem::remove_all(state_dir); }

  // Writes the spool of the device's worker.
  void Spool(const std::string& device, const std::string& bytes) {
    const auto paths = WorkerPathsFor(state_dir, device);
    ASSERT_TRUE(paths.ok()) << paths.status();
    std::filesystem::create_directories(paths->folder);
    std::ofstream(paths->spool, std::ios::binary) << bytes;
  }
  static std::string Ended(uint64_t job) {
    Report report;
    report.set_job_id(job);
    report.mutable_ended();
    return SpoolRecord(report);
  }

  std::filesystem::path state_dir;
};

TEST_F(SpooledReportsTest, AreNoneWithoutWorkersOrSpools) {
  auto reports = ReadSpooledReports(state_dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_TRUE(reports->empty());
  std::filesystem::create_directories(state_dir / "workers" / "cpu-0");
  reports = ReadSpooledReports(state_dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_TRUE(reports->empty());
}

TEST_F(SpooledReportsTest, AreThoseOfAllWorkersWithoutProgress) {
  Report progress;
  progress.set_job_id(3);
  progress.mutable_progress();
  Spool("cpu:0", Ended(1) + SpoolRecord(progress));
  Spool("cuda:0", Ended(2));
  const auto reports = ReadSpooledReports(state_dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_EQ(reports->size(), 2u);
  EXPECT_EQ((*reports)[0].job_id() + (*reports)[1].job_id(), 3u);
}

TEST_F(SpooledReportsTest, EndAtADamagedRecord) {
  Spool("cpu:0", Ended(1) + Ended(2).substr(0, 5));
  const auto reports = ReadSpooledReports(state_dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_EQ(reports->size(), 1u);
}

TEST_F(SpooledReportsTest, ASpoolThatCannotBeReadIsAnError) {
  std::filesystem::create_directories(state_dir / "workers" / "cpu-0" /
                                      "spool");
  const auto status = ReadSpooledReports(state_dir).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("workers/cpu-0/spool"), std::string::npos);
}

}  // namespace
}  // namespace gpupool::server
