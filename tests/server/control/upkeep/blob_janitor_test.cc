#include "server/control/upkeep/blob_janitor.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/ipc/spool_records.h"
#include "server/store/lost_database.h"

namespace gpupool::server {
namespace {

class BlobJanitorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "gpupoolXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    store = *Store::Open(folder / "gpupool.db");
    blobs = *BlobStore::Open(folder / "blobs");
  }
  void TearDown() override {
    store.reset();
    std::filesystem::remove_all(folder);
  }
  // Adds a checkpoint of job 1 whose manifest has this text.
  std::string Checkpoint(const std::string& manifest) {
    WriteBatch batch;
    v1::Job job;
    job.set_id(1);
    batch.upsert_jobs.push_back(job);
    v1::Checkpoint checkpoint;
    checkpoint.set_job_id(1);
    checkpoint.set_step(1);
    checkpoint.set_manifest_sha256(*blobs->Put(manifest));
    batch.upsert_checkpoints.push_back(checkpoint);
    EXPECT_TRUE(store->Commit(batch).ok());
    return checkpoint.manifest_sha256();
  }
  // Adds job 1, which runs for the second time.
  void RunningJob() {
    v1::Job job;
    job.set_id(1);
    job.set_state(v1::RUNNING);
    job.set_attempt(2);
    ASSERT_TRUE(store->Commit({.upsert_jobs = {job}}).ok());
  }
  // Adds a report of job 1 to the spool of a worker that is away.
  void Spool(worker::v1::Report report, uint32_t attempt) {
    report.set_job_id(1);
    report.set_attempt(attempt);
    std::filesystem::create_directories(folder / "workers" / "cpu-0");
    std::ofstream(folder / "workers" / "cpu-0" / "spool",
                  std::ios::binary | std::ios::app)
        << SpoolRecord(report);
  }
  absl::StatusOr<SweepResult> Sweep(absl::Duration later) {
    BlobJanitor janitor({.min_age = absl::Hours(1), .state_dir = folder},
                        store.get(), blobs.get());
    return janitor.SweepOnce(absl::Now() + later);
  }

  std::filesystem::path folder;
  std::unique_ptr<Store> store;
  std::unique_ptr<BlobStore> blobs;
};

TEST_F(BlobJanitorTest, KeepsWhatAManifestNamesAndRemovesTheRest) {
  const std::string weights = *blobs->Put("weights");
  const std::string stray = *blobs->Put("nobody wants this");
  const std::string manifest = Checkpoint(
      R"({"files":[{"role":"weights","sha256":")" + weights + R"("}]})");
  const auto result = Sweep(absl::Hours(2));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->removed_files, 1u);
  EXPECT_TRUE(blobs->Contains(weights));
  EXPECT_TRUE(blobs->Contains(manifest));
  EXPECT_FALSE(blobs->Contains(stray));
}

TEST_F(BlobJanitorTest, LeavesYoungBlobsAlone) {
  const std::string young = *blobs->Put("on its way");
  ASSERT_TRUE(Sweep(absl::Minutes(30)).ok());
  EXPECT_TRUE(blobs->Contains(young));
}

TEST_F(BlobJanitorTest, RemovesNothingWhenAManifestCannotBeRead) {
  const std::string stray = *blobs->Put("maybe somebody's weights");
  Checkpoint("not json");
  EXPECT_TRUE(absl::IsDataLoss(Sweep(absl::Hours(2)).status()));
  EXPECT_TRUE(blobs->Contains(stray));
}

TEST_F(BlobJanitorTest, RemovesExpiredUploadsEvenIfAManifestCannotBeRead) {
  Checkpoint("not json");
  const std::string key(64, 'a');
  {
    auto writer = blobs->Begin({.key = key, .sha256 = key, .total_bytes = 2});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append("x").ok());
  }
  EXPECT_FALSE(Sweep(absl::Hours(23)).ok());
  EXPECT_TRUE(blobs->partials().Find(key).ok());
  EXPECT_FALSE(Sweep(absl::Hours(25)).ok());
  EXPECT_TRUE(absl::IsNotFound(blobs->partials().Find(key).status()));
}

TEST_F(BlobJanitorTest, KeepsRecordedProfilesAsLongAsTheirJob) {
  v1::Job job;
  job.set_id(1);
  job.set_state(v1::SUCCEEDED);
  job.mutable_end_time()->set_seconds(1);
  const std::string trace = *blobs->Put("trace");
  job.add_recorded_profiles()->set_sha256(trace);
  ASSERT_TRUE(store->Commit({.upsert_jobs = {job}}).ok());
  ASSERT_TRUE(Sweep(absl::Hours(2)).ok());
  EXPECT_TRUE(blobs->Contains(trace));
  ASSERT_TRUE(store->Commit({.delete_jobs = {1}}).ok());
  ASSERT_TRUE(Sweep(absl::Hours(2)).ok());
  EXPECT_FALSE(blobs->Contains(trace));
}

TEST_F(BlobJanitorTest, KeepsWhatSpooledReportsOfRunningJobsName) {
  RunningJob();
  const std::string weights = *blobs->Put("weights");
  const std::string manifest = *blobs->Put(
      R"({"files":[{"role":"weights","sha256":")" + weights + R"("}]})");
  const std::string trace = *blobs->Put("trace");
  worker::v1::Report checkpoint;
  checkpoint.mutable_checkpoint()->set_manifest_sha256(manifest);
  Spool(checkpoint, 2);
  worker::v1::Report profile;
  profile.mutable_profile()->set_sha256(trace);
  Spool(profile, 2);
  const auto result = Sweep(absl::Hours(2));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(blobs->Contains(manifest));
  EXPECT_TRUE(blobs->Contains(weights));
  EXPECT_TRUE(blobs->Contains(trace));
}

TEST_F(BlobJanitorTest, RemovesWhatOnlyAnEarlierAttemptReports) {
  RunningJob();
  worker::v1::Report profile;
  profile.mutable_profile()->set_sha256(*blobs->Put("trace"));
  Spool(profile, 1);
  ASSERT_TRUE(Sweep(absl::Hours(2)).ok());
  EXPECT_FALSE(blobs->Contains(profile.profile().sha256()));
}

TEST_F(BlobJanitorTest, RemovesNothingWhenASpoolCannotBeRead) {
  const std::string stray = *blobs->Put("maybe somebody's weights");
  std::filesystem::create_directories(folder / "workers" / "cpu-0" / "spool");
  EXPECT_TRUE(absl::IsUnavailable(Sweep(absl::Hours(2)).status()));
  EXPECT_TRUE(blobs->Contains(stray));
}

TEST_F(BlobJanitorTest, KeepsTheModelFilesOfJobsThatHaveNotEnded) {
  v1::Job job;
  job.set_id(1);
  job.set_state(v1::QUEUED);
  v1::OnnxModel& onnx = *job.mutable_spec()->mutable_model()->mutable_onnx();
  onnx.set_sha256(*blobs->Put("model"));
  onnx.add_external_files()->set_sha256(*blobs->Put("its data"));
  const std::string weights = *blobs->Put("weights to begin with");
  job.mutable_spec()->mutable_model()->mutable_weights()->set_sha256(weights);
  WriteBatch batch;
  batch.upsert_jobs.push_back(job);
  ASSERT_TRUE(store->Commit(batch).ok());
  ASSERT_TRUE(Sweep(absl::Hours(2)).ok());
  EXPECT_TRUE(blobs->Contains(onnx.sha256()));
  EXPECT_TRUE(blobs->Contains(onnx.external_files(0).sha256()));
  EXPECT_TRUE(blobs->Contains(weights));
  batch.upsert_jobs[0].set_state(v1::FAILED);
  ASSERT_TRUE(store->Commit(batch).ok());
  ASSERT_TRUE(Sweep(absl::Hours(2)).ok());
  EXPECT_FALSE(blobs->Contains(onnx.sha256()));
}

TEST_F(BlobJanitorTest, KeepsWhatIsOlderThanTheDatabase) {
  const std::string before = *blobs->Put("of a database that was lost");
  const std::string after = *blobs->Put("of this database");
  const std::filesystem::path file = folder / "blobs" / before;
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) - std::chrono::hours(2));
  WriteBatch batch;
  batch.set_counters[kBeginCounter] =
      static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  ASSERT_TRUE(store->Commit(batch).ok());
  const auto result = Sweep(absl::Hours(2));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->removed_files, 1u);
  EXPECT_TRUE(blobs->Contains(before));
  EXPECT_FALSE(blobs->Contains(after));
}

}  // namespace
}  // namespace gpupool::server
