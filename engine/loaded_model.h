// LoadedModel: one version of a model, ready to answer on one device. One set
// of weights is shared by programs for batches of 1, 2, 4, ... up to
// max_batch_size; rows are padded up to the next of these buckets.
//
// Made by Session::LoadModel; must be destroyed before its Session. Infer is
// called from the session's compute thread; the rest from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

struct LoadRequest {
  uint64_t version_id = 0;
  std::string name;             // "digits/1": the owner label of its memory
  std::string manifest_sha256;  // of the checkpoint
  uint32_t max_batch_size = 1;  // 1 .. 1024
  uint64_t limit_bytes = 0;     // of device memory; 0: the device's
};

class LoadedModel {
 public:
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  // "input" and "output", FP32, first dimension -1.
  const v1::TensorSpec& input() const;
  const v1::TensorSpec& output() const;
  // Bytes of one row of each.
  uint64_t input_row_bytes() const;
  uint64_t output_row_bytes() const;
  uint32_t max_batch_size() const;
  // Peak bytes of device memory that the version took: weights and arena.
  uint64_t measured_bytes() const;

  // Computes `rows` examples. Both spans hold exactly rows * row bytes, in
  // host memory, row-major, any alignment. InvalidArgument when rows is 0 or
  // above max_batch_size, or a span has another size.
  absl::Status Infer(uint32_t rows, absl::Span<const std::byte> input,
                     absl::Span<std::byte> output);

  class Impl;
  explicit LoadedModel(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::engine
