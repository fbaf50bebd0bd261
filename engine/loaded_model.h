// LoadedModel: one version of a model, ready to answer on one device. One set
// of weights is shared by programs for batches of 1, 2, 4, ... up to
// max_batch_size; rows are padded up to the next of these buckets. A model
// that has no batch dimension in all of its inputs and outputs answers one
// request at a time.
//
// Made by Session::LoadModel; must be destroyed before its Session. Infer is
// called from the session's compute thread; the rest from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

struct LoadRequest {
  uint64_t version_id = 0;
  std::string name;             // "digits/1": the owner label of its memory
  std::string manifest_sha256;  // of the checkpoint
  uint32_t max_batch_size = 1;  // 1 .. 1024; 1 where there is no batch
  uint64_t limit_bytes = 0;     // of device memory; 0: the device's
};

// Tensors in host memory, row-major, any alignment, in the model's order.
struct InferenceBatch {
  uint32_t rows = 1;
  absl::Span<const absl::Span<const std::byte>> inputs;
  absl::Span<const absl::Span<std::byte>> outputs;
};

class LoadedModel {
 public:
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  // The first dimension is -1 in all of them, or in none when the model has no
  // batch.
  const std::vector<v1::TensorSpec>& inputs() const;
  const std::vector<v1::TensorSpec>& outputs() const;
  // Bytes of one row of each; of the whole tensor when there is no batch.
  const std::vector<uint64_t>& input_row_bytes() const;
  const std::vector<uint64_t>& output_row_bytes() const;
  uint32_t max_batch_size() const;
  // Peak bytes of device memory that the version took: weights and arena.
  uint64_t measured_bytes() const;

  // Computes `rows` examples. Every span holds exactly rows * row bytes.
  // InvalidArgument when rows is 0 or above max_batch_size, the number of
  // tensors is not the model's, or a span has another size.
  absl::Status Infer(const InferenceBatch& batch);

  class Impl;
  explicit LoadedModel(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::engine
