// Views of a request's tensors in the caller's memory, which they never own.
// CheckInputs compares a client's tensors with the model's before anything is
// queued.
//
// Pure functions. Views are valid as long as the memory that they point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/size_expression.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/tensor/served_sizes.h"

namespace gpupool::server {

struct TensorView {
  absl::string_view name;
  absl::string_view data_type;  // the protocol's name, "FP32"
  absl::Span<const int64_t> shape;
  absl::Span<const std::byte> bytes;  // little-endian, row-major, no padding
};

// Format of one tensor of a model, with the numbers that every request needs
// computed once.
struct TensorFormat {
  std::string name;
  // Type in requests and answers. Slots hold the tensor in HeldType of it.
  v1::DataType data_type = v1::DATA_TYPE_UNSPECIFIED;
  bool batched = true;             // whether the first dimension is the batch
  std::vector<int64_t> row_shape;  // largest row, without the batch dimension
  uint64_t row_bytes = 0;          // bytes of the largest row in a slot
  // A varying dimension. Its size is that of a served dimension, or follows
  // from some. If it has neither, the program sets it.
  struct Variable {
    size_t axis = 0;     // index in row_shape
    int dimension = -1;  // the served dimension; -1: none
    std::optional<engine::SizeExpression> size;
    std::vector<int> terms;  // the served dimensions of `size`, in its order

    bool IsKnown() const { return dimension >= 0 || size.has_value(); }
    bool Follows(int served) const;
    // Returns the size, which must be known, for these sizes of the served
    // dimensions.
    // InvalidArgument when it is negative or cannot be computed.
    absl::StatusOr<int64_t> SizeFor(absl::Span<const int64_t> sizes) const;
  };
  std::vector<Variable> variable;
  std::vector<std::byte> pad;  // element for padding, as slots hold it
  // Names of the classes of an output; null: they have none.
  std::shared_ptr<const std::vector<std::string>> labels;

  // Returns the largest shape of `rows` rows; rows must be 1 without a batch.
  std::vector<int64_t> Shape(int64_t rows) const;
  // Returns the same with -1 for the batch and the varying dimensions.
  std::vector<int64_t> DeclaredShape() const;
  // Returns the shape of one row for these sizes; without sizes the largest.
  // A size that cannot be computed is the largest as well.
  std::vector<int64_t> RowShape(absl::Span<const int64_t> sizes) const;
  // Returns the bytes of one row for these sizes in a slot; without sizes those
  // of the largest.
  uint64_t RowBytes(absl::Span<const int64_t> sizes) const;
  // Returns the bytes of the same row in a request or an answer.
  uint64_t SentRowBytes(absl::Span<const int64_t> sizes) const;
};

// Makes the format. A first dimension of -1 is the batch, unless it varies.
// InvalidArgument when another dimension is below 0, there is no data type, a
// row has more than 2^40 bytes, or a varying dimension or one that its size
// follows from is not in `dimensions`.
absl::StatusOr<TensorFormat> MakeTensorFormat(
    const v1::TensorSpec& spec,
    absl::Span<const SizedDimension> dimensions = {});

// Inputs of one request in the model's order, ready to be copied.
struct CheckedInputs {
  uint32_t rows = 0;
  std::vector<absl::Span<const std::byte>> bytes;  // one per model input
  // Sizes of the dimensions of several sizes, in their order.
  std::vector<int64_t> sizes;  // sizes in the request
  // Whole shapes, in the order of `bytes`; only of models of texts, whose
  // dimensions may have any size.
  std::vector<std::vector<int64_t>> shapes;
  std::vector<int64_t> served;  // sizes of the program, none smaller
};

// Inputs that a model takes. Borrowed.
struct ModelInputs {
  absl::string_view label;  // model in messages: "'digits' version 1"
  absl::Span<const TensorFormat> formats;
  uint32_t max_batch_size = 1;
  absl::Span<const SizedDimension> dimensions = {};
  bool texts = false;  // whether it is a model of texts
};

// Checks the inputs of a request. All errors are InvalidArgument and name the
// input, the given and the expected:
//   * wrong number of inputs, unknown or repeated name, data type, byte count
//   * BYTES whose lengths do not give as many elements as the shape has
//   * a size that varies and is above the largest one
//   * an element of a BOOL input that is neither 0 nor 1, or one of a UINT64
//     input above 2^63 - 1
//   * shape: the first dimension is 1 .. max_batch_size and equal in all
//     inputs, the rest exactly the model's; without a batch all of it
//   * sizes of `dimensions`: allowed ones, and equal in all inputs; sizes that
//     follow from them
absl::StatusOr<CheckedInputs> CheckInputs(const ModelInputs& model,
                                          absl::Span<const TensorView> inputs);

// Returns "[2,64]".
std::string ShapeText(absl::Span<const int64_t> shape);
// Returns "[-1,64]", the declared shape of a format.
std::string ShapeText(const TensorFormat& format);

}  // namespace gpupool::server
