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
#include "server/serving/served_sizes.h"

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
  std::vector<int64_t> row_shape;  // without the batch dimension; the largest
  uint64_t row_bytes = 0;          // of the largest
  struct Variable {
    size_t axis = 0;     // of row_shape
    int dimension = -1;  // whose size it has; -1: the program knows it
  };
  std::vector<Variable> variable;
  std::vector<std::byte> pad;  // the element to fill up with

  // The shape of `rows` rows, the largest; where there is no batch rows are 1.
  std::vector<int64_t> Shape(int64_t rows) const;
  // The same with -1 for the batch and what varies.
  std::vector<int64_t> DeclaredShape() const;
  // One row when the dimensions have these sizes; without sizes the largest.
  std::vector<int64_t> RowShape(absl::Span<const int64_t> sizes) const;
  uint64_t RowBytes(absl::Span<const int64_t> sizes) const;
};

// A first dimension of -1 is the batch, unless it varies. InvalidArgument when
// another dimension is below 1, there is no data type, a row has more than 2^40
// bytes, or a dimension that varies is none of `dimensions`.
absl::StatusOr<TensorFormat> MakeTensorFormat(
    const v1::TensorSpec& spec,
    absl::Span<const SizedDimension> dimensions = {});

// The inputs of one request in the model's order, ready to be copied.
struct CheckedInputs {
  uint32_t rows = 0;
  std::vector<absl::Span<const std::byte>> bytes;  // one per model input
  // Of the dimensions of several sizes, in their order.
  std::vector<int64_t> sizes;   // that came
  std::vector<int64_t> served;  // of the program, none smaller
};

// `model` is what messages call the model, "'digits' version 1". All errors
// are InvalidArgument and name the input, what came and what is taken: wrong
// number of inputs, unknown or repeated name, datatype, shape (the first
// dimension 1..max_batch_size and equal in all inputs, the rest exactly the
// model's; without a batch all of it), sizes of `dimensions` (taken, and equal
// in all inputs), byte count.
absl::StatusOr<CheckedInputs> CheckInputs(
    absl::string_view model, absl::Span<const TensorFormat> formats,
    uint32_t max_batch_size, absl::Span<const TensorView> inputs,
    absl::Span<const SizedDimension> dimensions = {});

// "[2,64]".
std::string ShapeText(absl::Span<const int64_t> shape);
// "[-1,64]": the shape that a format takes.
std::string ShapeText(const TensorFormat& format);

}  // namespace gpupool::server
