// Sending rows of numbers to a served model by the open inference protocol,
// and measuring how long the answers take.
//
// Thread-safety: RunInference calls the client from its own threads and joins
// them before it returns; the other functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/csv_rows.h"

namespace inference {
class ModelMetadataResponse;
}

namespace gpupool::client {

class Client;

// The tensors of a model with one input and one output of FP32.
struct ModelShape {
  std::string input_name;
  std::vector<int64_t> input_shape;  // of one row, without the batch dimension
  std::string output_name;
  std::vector<int64_t> output_shape;
};

// FailedPrecondition when the model is not of that kind (other numbers of
// tensors, another datatype, a dimension that varies).
absl::StatusOr<ModelShape> ShapeFromMetadata(
    const inference::ModelMetadataResponse& metadata);

struct InferenceOptions {
  std::string model;
  std::string version;     // empty: the server chooses
  size_t batch = 1;        // rows in one request
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
  const std::vector<size_t>& positions;  // of the rows in the table
};

// Sends the rows in the order of their positions. The first failing request
// ends the run with its status. InvalidArgument when the table's width is not
// the model's.
absl::StatusOr<InferenceRun> RunInference(Client& client,
                                          const InferenceOptions& options,
                                          const ChosenRows& rows);

// The index of the largest value; the first of equals. `values` not empty.
size_t ArgMax(absl::Span<const float> values);

// The smallest value such that `share` (0..1] of all are not above it (nearest
// rank); 0 for no values.
double Quantile(std::vector<double> values, double share);

}  // namespace gpupool::client
