// An ONNX file, compiled and ready to run on the CPU, for benchmarks and for
// tests against stored results. Aborts if the file cannot be used, so it is not
// for untrusted files. Belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/model/model_source.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/testing/model_program.h"

namespace gpupool::engine::testing {

struct OnnxPaths {
  std::string model;
  std::string external;           // a file of external data; empty: none
  std::string external_location;  // the path of that file in the model
};

// Opens the model through a temporary folder of blobs, which the source owns.
absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnx(
    const OnnxPaths& paths);

class OnnxProgram {
 public:
  // Makes the forward program for this batch.
  static std::unique_ptr<OnnxProgram> ForInference(
      std::shared_ptr<const ModelSource> source, int64_t batch, int threads);
  // Makes the training step. The batch is training.batch_size().
  static std::unique_ptr<OnnxProgram> ForTraining(
      std::shared_ptr<const ModelSource> source,
      const v1::TrainingSpec& training, int threads);

  template <typename Numbers>
  void SetInput(absl::string_view name, const Numbers& numbers) {
    program_->SetInput(name, numbers);
  }
  // Fills an input with numbers of a fixed seed.
  void FillInput(absl::string_view name);
  absl::Status Run() { return program_->Run(); }
  absl::Span<const float> Output(absl::string_view name) const {
    return program_->Output(name);
  }

  const ModelGraph& model() const { return program_->model(); }
  const Program& program() const { return program_->program(); }
  const PassReport& passes() const { return program_->passes(); }
  // Returns the time of each node over `runs` runs. A run may overwrite its
  // inputs, so they are set before each.
  std::string ProfileTable(int runs, const std::function<void()>& set_inputs);

 private:
  explicit OnnxProgram(int threads);
  ProgramDevice device() { return {&backend_, &allocator_}; }
  void Load(absl::StatusOr<std::unique_ptr<ModelProgram>> program);

  CpuBackend backend_;
  HostPageSource segments_;
  CachingAllocator allocator_;
  std::unique_ptr<ModelProgram> program_;
};

}  // namespace gpupool::engine::testing
