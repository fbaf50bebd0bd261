// Sessions on the GPU and on the host over one folder of blobs, which holds the
// data set of bars (tests/engine/train/bars_job.h).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/engine/session_fixture.h"
#include "tests/engine/train/bars_job.h"
#include "tests/gpu/gpu.h"

namespace gpupool::engine::testing {

// Skips its tests, with the reason, if there is no GPU.
class SessionOnGpu : public SessionFixture {
 protected:
  void SetUp() override {
    const auto opened = Gpu::Get();
    if (!opened.ok()) GTEST_SKIP() << "no GPU: " << opened.status().message();
    SessionFixture::SetUp();
    const std::string dirs = VendorLibraryDirs();
    auto session = Session::Create(
        {.device = {DeviceType::kCuda, 0},
         .memory_limit_bytes = uint64_t{1} << 30,
         .blob_dir = blob_dir_,
         .cuda = {.module_dirs = {std::filesystem::path(CudaModulePath())
                                      .parent_path()
                                      .string()},
                  .vendor_library_dirs = dirs}});
    ASSERT_TRUE(session.ok()) << session.status();
    gpu_ = *std::move(session);
    auto dataset = Store("bars.csv", BarsCsv(160));
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    dataset_ = *std::move(dataset);
  }
  void TearDown() override { EndIfDeviceIsLost(); }

  Session& host() { return *session_; }
  Session& gpu() { return *gpu_; }

  std::unique_ptr<TrainingRun> Start(Session& session, const v1::JobSpec& spec,
                                     const std::string& resume = "") {
    auto run = session.StartTraining({.job_id = 7,
                                      .attempt = 1,
                                      .spec = spec,
                                      .dataset = dataset_,
                                      .resume_manifest_sha256 = resume});
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }

  static std::string Save(TrainingRun& run) {
    const auto saved = run.SaveCheckpoint();
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? saved->manifest_sha256() : "";
  }
  // Returns the digests of weights and optimizer state.
  std::string Bits(TrainingRun& run) {
    const auto saved = run.SaveCheckpoint();
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? FilesOf(*saved) : "";
  }

 private:
  std::unique_ptr<Session> gpu_;
  v1::Dataset dataset_;
};

}  // namespace gpupool::engine::testing
