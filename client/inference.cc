#include "client/inference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/files/float_bytes.h"
#include "client/text/counted.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::client {
namespace {

using inference::ModelMetadataResponse;

size_t Product(const std::vector<int64_t>& shape) {
  size_t product = 1;
  for (int64_t dimension : shape) product *= static_cast<size_t>(dimension);
  return product;
}

absl::StatusOr<std::vector<int64_t>> RowShape(
    const ModelMetadataResponse::TensorMetadata& tensor,
    const std::string& model) {
  if (FloatBytes(tensor.datatype()) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("tensor '", tensor.name(), "' of model '", model,
                     "' has datatype ", tensor.datatype(),
                     "; a table of numbers can be sent as FP32, FP16 or BF16"));
  }
  std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
  if (!shape.empty()) shape.erase(shape.begin());
  for (int64_t dimension : shape) {
    if (dimension < 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("tensor '", tensor.name(), "' of model '", model,
                       "' has shape [", absl::StrJoin(tensor.shape(), ", "),
                       "]; only the first dimension may vary"));
    }
  }
  return shape;
}

// The shared state of all threads of one run.
class Sender {
 public:
  Sender(Client& client, const InferenceOptions& options,
         const ModelShape& shape, const ChosenRows& rows)
      : client_(client),
        options_(options),
        shape_(shape),
        rows_(rows),
        requests_((rows.positions.size() + options.batch - 1) / options.batch) {
    run_.rows = rows.positions.size();
    run_.output_width = Product(shape.output_shape);
    run_.outputs.resize(run_.rows * run_.output_width);
    run_.latencies_ms.resize(requests_);
  }

  absl::StatusOr<InferenceRun> Run() {
    const absl::Time start = absl::Now();
    std::vector<std::thread> threads;
    const size_t count = std::min(options_.concurrency, requests_);
    for (size_t i = 0; i < count; ++i) {
      threads.emplace_back([this] { Work(); });
    }
    for (std::thread& thread : threads) thread.join();
    run_.seconds = absl::ToDoubleSeconds(absl::Now() - start);
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    return std::move(run_);
  }

 private:
  // Each request belongs to one thread, which alone writes the request's rows
  // and latency. So only the status needs the lock. After a failure the other
  // threads stop after their current request.
  void Work() {
    while (!failed_) {
      const size_t request = next_++;
      if (request >= requests_) return;
      absl::Status status = SendOne(request);
      if (status.ok()) continue;
      failed_ = true;
      absl::MutexLock lock(&mutex_);
      if (status_.ok()) status_ = std::move(status);
    }
  }

  absl::Status SendOne(size_t request) {
    const size_t first = request * options_.batch;
    const size_t rows = std::min(options_.batch, run_.rows - first);
    const inference::ModelInferRequest message = MakeRequest(first, rows);
    const absl::Time start = absl::Now();
    const absl::StatusOr<inference::ModelInferResponse> answer =
        client_.ModelInfer(message);
    run_.latencies_ms[request] =
        absl::ToDoubleMilliseconds(absl::Now() - start);
    if (!answer.ok()) return answer.status();
    return TakeOutputs(*answer, first, rows);
  }

  inference::ModelInferRequest MakeRequest(size_t first, size_t rows) const {
    inference::ModelInferRequest message;
    message.set_model_name(options_.model);
    message.set_model_version(options_.version);
    auto& input = *message.add_inputs();
    input.set_name(shape_.input_name);
    input.set_datatype(shape_.input_type);
    input.add_shape(static_cast<int64_t>(rows));
    for (int64_t dimension : shape_.input_shape) input.add_shape(dimension);
    std::string& raw = *message.add_raw_input_contents();
    raw.reserve(rows * rows_.table.width * FloatBytes(shape_.input_type));
    for (size_t i = 0; i < rows; ++i) {
      AppendFloats(shape_.input_type,
                   rows_.table.Row(rows_.positions[first + i]), raw);
    }
    return message;
  }

  absl::Status TakeOutputs(const inference::ModelInferResponse& answer,
                           size_t first, size_t rows) {
    const size_t count = rows * run_.output_width;
    const size_t bytes = count * FloatBytes(shape_.output_type);
    if (answer.raw_output_contents_size() != 1 ||
        answer.raw_output_contents(0).size() != bytes) {
      return absl::InternalError(absl::StrCat(
          "the server's answer for model '", options_.model, "' has ",
          Counted(static_cast<uint64_t>(answer.raw_output_contents_size()),
                  "output"),
          " of ",
          answer.raw_output_contents_size() > 0
              ? answer.raw_output_contents(0).size()
              : 0,
          " bytes; ", bytes, " bytes in one output were expected"));
    }
    ReadFloats(
        shape_.output_type, answer.raw_output_contents(0),
        absl::MakeSpan(run_.outputs).subspan(first * run_.output_width, count));
    return absl::OkStatus();
  }

  Client& client_;
  const InferenceOptions& options_;
  const ModelShape& shape_;
  const ChosenRows rows_;
  const size_t requests_;
  InferenceRun run_;  // each request writes its own part
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<ModelShape> ShapeFromMetadata(
    const ModelMetadataResponse& metadata) {
  if (metadata.inputs_size() != 1 || metadata.outputs_size() != 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model '", metadata.name(), "' has ",
        Counted(static_cast<uint64_t>(metadata.inputs_size()), "input"),
        " and ",
        Counted(static_cast<uint64_t>(metadata.outputs_size()), "output"),
        "; a table of numbers can feed one input and read one output"));
  }
  auto input = RowShape(metadata.inputs(0), metadata.name());
  if (!input.ok()) return input.status();
  auto output = RowShape(metadata.outputs(0), metadata.name());
  if (!output.ok()) return output.status();
  return ModelShape{
      metadata.inputs(0).name(),     *std::move(input),
      metadata.outputs(0).name(),    *std::move(output),
      metadata.inputs(0).datatype(), metadata.outputs(0).datatype()};
}

absl::StatusOr<InferenceRun> RunInference(Client& client,
                                          const InferenceOptions& options,
                                          const ChosenRows& rows) {
  inference::ModelMetadataRequest request;
  request.set_name(options.model);
  request.set_version(options.version);
  const absl::StatusOr<ModelMetadataResponse> metadata =
      client.ModelMetadata(request);
  if (!metadata.ok()) return metadata.status();
  const absl::StatusOr<ModelShape> shape = ShapeFromMetadata(*metadata);
  if (!shape.ok()) return shape.status();
  const CsvRows& table = rows.table;
  const size_t width = Product(shape->input_shape);
  if (width != table.width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model '", options.model, "' takes ", Counted(width, "number"),
        " a row (shape [", absl::StrJoin(shape->input_shape, ", "),
        "]), the table has ", table.width,
        table.labels.empty() ? "" : " besides the label",
        "; see --label-column and --no-labels"));
  }
  return Sender(client, options, *shape, rows).Run();
}

size_t ArgMax(absl::Span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) -
                             values.begin());
}

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(index),
                   values.end());
  return values[index];
}

}  // namespace gpupool::client
