// LoadedModel: one version of a model, ready to answer on one device. Its
// programs share one set of weights and one arena. There are programs for
// batches of 1, 2, 4, ... up to max_batch_size, and rows are padded to the next
// of these buckets. If dimensions vary, there are programs for their sizes,
// which are made on demand and of which a bounded number is kept. A model
// without a batch dimension in all of its inputs and outputs answers one
// request at a time.
//
// Made by Session::LoadModel; must be destroyed before its Session. Infer is
// called from the session's compute thread, the rest from any thread.
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
  std::string manifest_sha256;  // the checkpoint's name
  uint32_t max_batch_size = 1;  // 1 .. 1024; 1 without a batch dimension
  uint64_t limit_bytes = 0;     // device memory; 0: the planned bytes
  uint32_t max_programs = 0;    // kept for varying sizes, up to 256; 0: 16
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
  bool benchmark = false;  // see v1::ServingOptions
};

// Tensors in host memory: row-major, any alignment, in the model's order. No
// output may overlap another tensor.
struct InferenceBatch {
  uint32_t rows = 1;
  // The size of each of LoadedModel::dimensions.
  absl::Span<const int64_t> sizes;
  absl::Span<const absl::Span<const std::byte>> inputs;
  absl::Span<const absl::Span<std::byte>> outputs;
};

struct InferenceAnswer {
  // The whole shapes of the outputs. With a batch the first dimension is the
  // number of rows.
  std::vector<std::vector<int64_t>> shapes;
  // Numbers of programs that were made for this batch, and removed for them.
  uint32_t compiled = 0;
  uint32_t evicted = 0;
};

class LoadedModel {
 public:
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  // Return the specs of inputs and outputs. Varying dimensions are -1. The
  // first dimension is -1 in all of them, or in none when the model has no
  // batch.
  const std::vector<v1::TensorSpec>& inputs() const;
  const std::vector<v1::TensorSpec>& outputs() const;
  // Returns the names of the dimensions with several sizes, in rising order.
  const std::vector<std::string>& dimensions() const;
  // Return the bytes of one row of each tensor at the largest sizes; without a
  // batch, of the whole tensor.
  const std::vector<uint64_t>& input_row_bytes() const;
  const std::vector<uint64_t>& output_row_bytes() const;
  uint32_t max_batch_size() const;
  // Returns the peak bytes of device memory of the version: weights and arena.
  uint64_t measured_bytes() const;

  // Computes `rows` examples. Every span must have exactly the bytes that rows
  // and sizes give for its shape. An output whose shape only the program knows
  // may have a larger span.
  //   INVALID_ARGUMENT    rows is 0 or above max_batch_size, a size is not
  //                       served, the number of tensors is not the model's, or
  //                       a span has another size
  //   RESOURCE_EXHAUSTED  a program for these sizes needs more than was planned
  //   other codes         the model cannot be computed for these sizes
  absl::Status Infer(const InferenceBatch& batch,
                     InferenceAnswer* answer = nullptr);

  class Impl;
  explicit LoadedModel(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::engine
