// A model's program with its memory on any device, for benchmarks and for tests
// that run the same program on two devices. Its weights start like those of a
// job. Belongs to one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/memory/caching_allocator.h"
#include "engine/model/model_source.h"
#include "engine/passes/pipeline.h"
#include "engine/plan/report.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_store.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine::testing {

// The device on which a program runs. Both members must outlive it.
struct ProgramDevice {
  DeviceBackend* backend = nullptr;
  CachingAllocator* allocator = nullptr;
  KernelOptions kernels = {};  // TF32 follows the precision
};

class ModelProgram {
 public:
  using Source = std::shared_ptr<const ModelSource>;

  // These compile the program without taking memory. Its planned bytes can be
  // read afterwards.
  static absl::StatusOr<std::unique_ptr<ModelProgram>> ForInference(
      Source source, int64_t batch, const ProgramDevice& device,
      v1::Precision precision = v1::HIGHEST);
  // Compiles the training step. The batch is training.batch_size().
  static absl::StatusOr<std::unique_ptr<ModelProgram>> ForTraining(
      Source source, const v1::TrainingSpec& training,
      const ProgramDevice& device);
  ModelProgram(const ModelProgram&) = delete;
  ModelProgram& operator=(const ModelProgram&) = delete;

  // Takes memory and sets the weights. All functions below need it. `brought`:
  // as in Executor::Create.
  absl::Status Load(uint64_t seed = 1,
                    absl::Span<const std::string> brought = {});
  absl::Status Run() { return executor_->Run(); }

  // Copies numbers into an input. Aborts if it has another size.
  void SetInput(absl::string_view name, absl::Span<const float> numbers) {
    CopyToInput(name, numbers);
  }
  void SetInput(absl::string_view name, absl::Span<const int64_t> numbers) {
    CopyToInput(name, numbers);
  }
  void SetInput(absl::string_view name, double number) {
    CopyToInput(name, absl::MakeConstSpan(&number, 1));
  }
  // Sets all inputs that are not brought: features to numbers in [0, 1) that
  // depend on the step, labels and tokens to numbers below `classes` that do
  // not, the learning rate to 0.01.
  void FillInputs(int64_t step, int64_t classes);
  // Writes the values of FillInputs for that input to `data`, which must have
  // the bytes of the value.
  static void FillInput(const Value& value, int64_t step, int64_t classes,
                        std::byte* data);
  // Returns an output after a run.
  absl::Span<const float> Output(absl::string_view name) const;
  // Returns the bytes of all outputs.
  std::string Outputs() const;

  Executor& executor() { return *executor_; }
  const ModelGraph& model() const { return model_; }
  const Program& program() const {
    return executor_ == nullptr ? *program_ : executor_->program();
  }
  // Returns the planned bytes, including the weights of this program.
  PlannedBytes bytes() const;
  const PassReport& passes() const { return passes_; }

 private:
  ModelProgram(Source source, ModelGraph model, const ProgramDevice& device)
      : source_(std::move(source)), model_(std::move(model)), device_(device) {}
  absl::Status Compile(const PassOptions& options, v1::Precision precision);
  template <typename T>
  void CopyToInput(absl::string_view name, absl::Span<const T> numbers) {
    const absl::Span<std::byte> to = executor_->input(name);
    GPUPOOL_CHECK(to.size() == numbers.size() * sizeof(T));
    std::memcpy(to.data(), numbers.data(), to.size());
  }

  const Source source_;
  const ModelGraph model_;
  ProgramDevice device_;
  PassReport passes_;
  std::optional<Program> program_;  // until it is loaded
  std::optional<WeightLayout> layout_;
  std::optional<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace gpupool::engine::testing
