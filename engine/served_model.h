// ServedModel: one version of a model, ready to answer on one device.
// LoadedModel is the real one; the worker is written against this interface,
// so that its tests script a model of their own.
//
// Made by Session::LoadModel; must be destroyed before its Session. Infer is
// called from the session's compute thread; the rest from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
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
  uint64_t limit_bytes = 0;     // of device memory; 0: what is planned here
  uint32_t max_programs = 0;    // kept for sizes, up to 256; 0: 16
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
  bool benchmark = false;  // as v1::ServingOptions
};

// Tensors in host memory, row-major, any alignment, in the model's order. No
// output overlaps another tensor.
struct InferenceBatch {
  uint32_t rows = 1;
  // One for each of ServedModel::dimensions.
  absl::Span<const int64_t> sizes;
  absl::Span<const absl::Span<const std::byte>> inputs;
  absl::Span<const absl::Span<std::byte>> outputs;
};

struct InferenceAnswer {
  // Shapes of the outputs, whole; the first dimension is the rows where there
  // is a batch.
  std::vector<std::vector<int64_t>> shapes;
  // Programs that were made for this batch, and removed for them.
  uint32_t compiled = 0;
  uint32_t evicted = 0;
};

class ServedModel {
 public:
  virtual ~ServedModel() = default;

  // The first dimension is -1 in all of them, or in none when the model has no
  // batch. Others are -1 where they vary.
  virtual const std::vector<v1::TensorSpec>& inputs() const = 0;
  virtual const std::vector<v1::TensorSpec>& outputs() const = 0;
  // Names of the dimensions that have several sizes, rising.
  virtual const std::vector<std::string>& dimensions() const = 0;
  // Peak bytes of device memory that the version took: weights and arena.
  virtual uint64_t measured_bytes() const = 0;

  // Computes `rows` examples; `answer` may be null. Every input span holds
  // exactly what rows and sizes make of its shape, and so does every output
  // span; one whose shape varies in a way that only the program knows may be
  // larger.
  //   INVALID_ARGUMENT    rows is 0 or above max_batch_size, a size is not
  //                       served, the number of tensors is not the model's, or
  //                       a span has another size
  //   RESOURCE_EXHAUSTED  a program for these sizes needs more than was planned
  //   other codes         the model cannot be computed for these sizes
  virtual absl::Status Infer(const InferenceBatch& batch,
                             InferenceAnswer* answer) = 0;
};

}  // namespace gpupool::engine
