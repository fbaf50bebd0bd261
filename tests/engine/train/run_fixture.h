// A CPU device and small datasets for tests of training runs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/sha256.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/train/device_context.h"
#include "engine/train/training_run.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {

class RunFixture : public ::testing::Test {
 protected:
  DeviceContext Device() { return {&backend_, &allocator_, blob_dir_}; }

  v1::Dataset StoreCsv(const std::string& text) {
    return Store(text, "table.csv");
  }

  v1::Dataset StoreNpz(const std::string& archive) {
    return Store(archive, "table.npz");
  }

  // Stores a file of ONNX as the model of a job.
  void StoreModel(const std::string& onnx, v1::JobSpec& spec) {
    const v1::Dataset stored = Store(onnx, "model.onnx");
    spec.mutable_model()->mutable_onnx()->set_sha256(stored.files(0).sha256());
    spec.mutable_model()->mutable_onnx()->set_bytes(
        stored.files(0).total_bytes());
  }

  // Writes a blob. Returns a dataset with it as its table.
  v1::Dataset Store(const std::string& bytes, const std::string& name) {
    v1::Dataset dataset;
    v1::DatasetFile* file = dataset.add_files();
    file->set_role(v1::DatasetFile::TABLE);
    file->set_file_name(name);
    file->set_total_bytes(bytes.size());
    file->set_sha256(Sha256Hex(bytes));
    std::ofstream(blob_dir_ + "/" + file->sha256(), std::ios::binary) << bytes;
    return dataset;
  }

  // Begins a run, or goes on from a checkpoint.
  absl::StatusOr<std::unique_ptr<TrainingRun>> StartRun(
      const v1::JobSpec& spec, const v1::Dataset& dataset,
      const std::string& resume = "") {
    return TrainingRun::Create(Device(), {.job_id = 3,
                                          .attempt = 1,
                                          .spec = spec,
                                          .dataset = dataset,
                                          .resume_manifest_sha256 = resume});
  }

  // Makes steps until this one.
  static void MakeSteps(TrainingRun& run, uint64_t step) {
    while (run.step() < step) {
      const absl::Status made = run.Step();
      ASSERT_TRUE(made.ok()) << made;
    }
  }

  // Returns the digest of a checkpoint, which stands for every bit of the
  // weights; empty when it cannot be written.
  static std::string Saved(TrainingRun& run) {
    const auto saved = run.SaveCheckpoint();
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? saved->manifest_sha256() : "";
  }

  // Makes steps until this one. Returns the digest of a checkpoint.
  static std::string SavedAt(TrainingRun& run, uint64_t step) {
    MakeSteps(run, step);
    return Saved(run);
  }

  const ScratchFolder folder_;
  const std::string blob_dir_ = folder_.path();
  HostPageSource source_;
  CachingAllocator allocator_{"cpu:0", uint64_t{1} << 28, &source_};
  CpuBackend backend_{1};
};

}  // namespace gpupool::engine
