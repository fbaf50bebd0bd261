// A case of gpu_speed: a model, and one training step or one forward run of it
// at a batch size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/engine/testing/model_program.h"

namespace gpupool::engine::testing {

struct GpuCase {
  std::shared_ptr<const ModelSource> source;
  int64_t batch = 1;
  int64_t classes = 0;  // labels and tokens are below this
  bool training = false;
  v1::Precision precision = v1::HIGH;
  v1::TrainingSpec step;  // for training
};

// Returns a case of the list in gpu_speed.cc. NOT_FOUND for other names.
absl::StatusOr<GpuCase> FindGpuCase(const std::string& name, int64_t batch);

// Compiles the case. Its program is not loaded.
absl::StatusOr<std::unique_ptr<ModelProgram>> CompileCase(
    const GpuCase& gpu_case, const ProgramDevice& device);

}  // namespace gpupool::engine::testing
