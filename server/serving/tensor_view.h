// Tensors of a request where they lie: a view names memory of the caller and
// never owns it. CheckInputs holds what a client sent against what the model
// takes, before anything is queued.
//
// Pure functions; views are valid as long as the memory that they point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

struct TensorView {
  absl::string_view name;
  absl::string_view data_type;  // the protocol's name, "FP32"
  absl::Span<const int64_t> shape;
  absl::Span<const std::byte> bytes;  // little-endian, row-major, no padding
};

// What a model takes or gives for one tensor, with the numbers that every
// request needs worked out once.
struct TensorFormat {
  std::string name;
  v1::DataType data_type = v1::DATA_TYPE_UNSPECIFIED;
  bool batched = true;             // the whole shape begins with the batch
  std::vector<int64_t> row_shape;  // without the batch dimension
  uint64_t row_bytes = 0;

  // The shape of `rows` rows; where there is no batch rows are 1.
  std::vector<int64_t> Shape(int64_t rows) const;
};

// A first dimension of -1 is the batch. InvalidArgument when another dimension
// is below 1, there is no data type, or a row has more than 2^40 bytes.
absl::StatusOr<TensorFormat> MakeTensorFormat(const v1::TensorSpec& spec);

// The inputs of one request in the model's order, ready to be copied.
struct CheckedInputs {
  uint32_t rows = 0;
  std::vector<absl::Span<const std::byte>> bytes;  // one per model input
};

// `model` is what messages call the model, "'digits' version 1". All errors
// are InvalidArgument and name the input, what came and what is taken: wrong
// number of inputs, unknown or repeated name, datatype, shape (the first
// dimension 1..max_batch_size and equal in all inputs, the rest exactly the
// model's; without a batch all of it), byte count.
absl::StatusOr<CheckedInputs> CheckInputs(
    absl::string_view model, absl::Span<const TensorFormat> formats,
    uint32_t max_batch_size, absl::Span<const TensorView> inputs);

// "[2,64]".
std::string ShapeText(absl::Span<const int64_t> shape);
// "[-1,64]": the shape that a format takes.
std::string ShapeText(const TensorFormat& format);

}  // namespace gpupool::server
