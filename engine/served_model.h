// ServedModel: one version of a model, ready to answer on one device.
// LoadedModel implements it. The worker uses only this interface, so that its
// tests script a model of their own.
//
// Made by Session::LoadModel; must be destroyed before its Session. Infer and
// the profile are called from the session's compute thread, the rest from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/train/training.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

struct LoadRequest {
  uint64_t version_id = 0;
  std::string name;             // "digits/1": the owner label of its memory
  std::string manifest_sha256;  // the checkpoint's name
  // 1 .. v1::MAX_SERVED_ROWS; 1 without a batch dimension.
  uint32_t max_batch_size = 1;
  uint64_t limit_bytes = 0;  // device memory; 0: the planned bytes
  // Programs that are kept for varying sizes, at most v1::MAX_SERVED_PROGRAMS;
  // 0: v1::DEFAULT_SERVED_PROGRAMS.
  uint32_t max_programs = 0;
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
  bool benchmark = false;  // see v1::ServingOptions
};

// Tensors in host memory: row-major, any alignment, in the model's order, of
// the types that hold those of the specs (engine/base/held_data_type.h). No
// output may overlap another tensor.
struct InferenceBatch {
  uint32_t rows = 1;
  // The size of each of ServedModel::dimensions.
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

class ServedModel {
 public:
  virtual ~ServedModel() = default;

  // Return the specs of inputs and outputs. Types are those of clients. Varying
  // dimensions are -1. The first dimension is -1 in all of them, or in none
  // when the model has no batch.
  virtual const std::vector<v1::TensorSpec>& inputs() const = 0;
  virtual const std::vector<v1::TensorSpec>& outputs() const = 0;
  // Returns the names of the dimensions with several sizes, in rising order.
  virtual const std::vector<std::string>& dimensions() const = 0;
  // Returns the peak bytes of device memory of the version: weights and arena.
  virtual uint64_t measured_bytes() const = 0;

  // Computes `rows` examples; `answer` may be null. Every span must have
  // exactly the bytes that rows and sizes give for its shape. An output whose
  // shape only the program knows may have a larger span.
  //   INVALID_ARGUMENT    rows is 0 or above max_batch_size, a size is not
  //                       served, the number of tensors is not the model's, or
  //                       a span has another size
  //   RESOURCE_EXHAUSTED  a program for these sizes needs more than was planned
  //   other codes         the model cannot be computed for these sizes
  virtual absl::Status Infer(const InferenceBatch& batch,
                             InferenceAnswer* answer) = 0;

  // The next three time the nodes of requests that the model makes itself. Call
  // StartProfile, then ProfileRequest for each request, then TakeProfile. Infer
  // may be called in between. An error ends the profile. By default a model
  // cannot be profiled: UNIMPLEMENTED.
  //
  // Prepares requests of `rows` rows (0: max_batch_size) and the largest sizes.
  //   FAILED_PRECONDITION  a profile was started already
  //   INVALID_ARGUMENT     too many rows, or the trace would be too large
  //   UNIMPLEMENTED        the model runs in stages or has bound inputs
  //   other codes          as Infer
  virtual absl::Status StartProfile(uint32_t /*requests*/, uint32_t /*rows*/) {
    return absl::UnimplementedError("this model cannot be profiled");
  }
  // Computes the next request. FAILED_PRECONDITION without a profile, ABORTED
  // when programs were removed since it was started; other codes as Infer.
  virtual absl::Status ProfileRequest() {
    return absl::UnimplementedError("this model cannot be profiled");
  }
  // Ends the profile and stores its trace as a blob. Errors as ProfileRequest.
  virtual absl::StatusOr<StoredProfile> TakeProfile() {
    return absl::UnimplementedError("this model cannot be profiled");
  }
};

}  // namespace gpupool::engine
