// The inside of LoadedModel: what the session needs to make one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/loaded_model.h"
#include "engine/runtime/executor.h"
#include "engine/train/device_context.h"
#include "engine/train/programs.h"

namespace gpupool::engine {

class LoadedModel::Impl {
 public:
  // Status codes as Session::LoadModel.
  static absl::StatusOr<std::unique_ptr<Impl>> Create(
      const DeviceContext& device, const LoadRequest& request);

  absl::Status Infer(uint32_t rows, absl::Span<const std::byte> input,
                     absl::Span<std::byte> output);

  const v1::TensorSpec& input() const { return input_; }
  const v1::TensorSpec& output() const { return output_; }
  uint64_t input_row_bytes() const { return input_row_bytes_; }
  uint64_t output_row_bytes() const { return output_row_bytes_; }
  uint32_t max_batch_size() const { return request_.max_batch_size; }
  uint64_t measured_bytes() const { return holder_.peak_bytes(); }

 private:
  struct Bucket {
    int64_t batch = 0;
    std::unique_ptr<Executor> executor;
  };

  Impl(const DeviceContext& device, const LoadRequest& request);
  absl::Status MakeExecutors(InferencePrograms programs);
  Executor& BucketFor(uint32_t rows);

  const DeviceContext device_;
  const LoadRequest request_;
  MemoryHolder holder_;
  v1::TensorSpec input_;
  v1::TensorSpec output_;
  uint64_t input_row_bytes_ = 0;
  uint64_t output_row_bytes_ = 0;
  std::optional<WeightStore> weights_;
  Allocation arena_;
  std::vector<Bucket> buckets_;  // rising
};

// "input" or "output" of a model: FP32, the batch dimension first as -1.
v1::TensorSpec BatchedSpec(const std::string& name, const Shape& example);

}  // namespace gpupool::engine
