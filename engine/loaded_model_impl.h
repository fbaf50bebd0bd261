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
#include "engine/train/checkpoint.h"
#include "engine/train/device_context.h"
#include "engine/train/programs.h"

namespace gpupool::engine {

class LoadedModel::Impl {
 public:
  struct Ports {
    std::vector<v1::TensorSpec> specs;
    std::vector<uint64_t> row_bytes;
  };

  // Status codes as Session::LoadModel.
  static absl::StatusOr<std::unique_ptr<Impl>> Create(
      const DeviceContext& device, const LoadRequest& request);

  absl::Status Infer(const InferenceBatch& batch);

  const Ports& inputs() const { return inputs_; }
  const Ports& outputs() const { return outputs_; }
  uint32_t max_batch_size() const { return max_batch_size_; }
  uint64_t measured_bytes() const { return holder_.peak_bytes(); }

 private:
  struct Bucket {
    int64_t batch = 0;
    std::unique_ptr<Executor> executor;
  };

  Impl(const DeviceContext& device, const LoadRequest& request);
  absl::Status MakeExecutors(InferencePrograms programs);
  // From the checkpoint's weights, or else those of the model file.
  absl::Status SetWeights(const Manifest& manifest, const ModelSource& source,
                          const std::vector<PersistentSpec>& persistents);
  absl::Status CheckBatch(const InferenceBatch& batch) const;
  Executor& BucketFor(uint32_t rows);

  const DeviceContext device_;
  const LoadRequest request_;
  MemoryHolder holder_;
  Ports inputs_;
  Ports outputs_;
  uint32_t max_batch_size_ = 1;
  std::optional<WeightStore> weights_;
  Allocation arena_;
  std::vector<Bucket> buckets_;  // rising
};

}  // namespace gpupool::engine
