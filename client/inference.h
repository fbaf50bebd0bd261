// Sends rows of numbers to a served model over the open inference protocol, and
// measures how long the answers take.
//
// Thread-safety: RunInference calls the client from its own threads and joins
// them before it returns. The other functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/files/csv_rows.h"

namespace inference {
class ModelMetadataResponse;
}

namespace gpupool::client {

class Client;

// The tensors of a model with one input and one output of FP32, FP16 or BF16.
struct ModelShape {
  std::string input_name;
  std::vector<int64_t> input_shape;  // of one row, without the batch dimension
  std::string output_name;
  std::vector<int64_t> output_shape;
  std::string input_type = "FP32";
  std::string output_type = "FP32";
};

// Returns the shape. FailedPrecondition if the model has other numbers of
// tensors, another datatype or a dimension of several sizes.
absl::StatusOr<ModelShape> ShapeFromMetadata(
    const inference::ModelMetadataResponse& metadata);

struct InferenceOptions {
  std::string model;
  std::string version;     // empty: the server chooses
  size_t batch = 1;        // rows per request
  size_t concurrency = 1;  // requests in flight
};

struct InferenceRun {
  size_t rows = 0;
  size_t output_width = 0;           // numbers of one row's output
  std::vector<float> outputs;        // rows * output_width, in row order
  std::vector<double> latencies_ms;  // of each request
  double seconds = 0;                // from first request to last answer

  absl::Span<const float> Row(size_t index) const {
    return absl::MakeConstSpan(outputs).subspan(index * output_width,
                                                output_width);
  }
};

// Rows of a table. Borrowed.
struct ChosenRows {
  const CsvRows& table;
  const std::vector<size_t>& positions;  // positions of the rows in the table
};

// Sends the rows in the order of their positions. The first request that fails
// ends the run with its status. InvalidArgument if the table's width differs
// from the model's.
absl::StatusOr<InferenceRun> RunInference(Client& client,
                                          const InferenceOptions& options,
                                          const ChosenRows& rows);

// Returns the index of the largest value, or of the first of equal ones.
// `values` must not be empty.
size_t ArgMax(absl::Span<const float> values);

// Returns the smallest value that at least the fraction `share` (0..1] of all
// values does not exceed (nearest rank), or 0 without values.
double Quantile(std::vector<double> values, double share);

}  // namespace gpupool::client
