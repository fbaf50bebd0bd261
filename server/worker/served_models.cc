#include "server/worker/served_models.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using Clock = std::chrono::steady_clock;

using Inputs = std::vector<absl::Span<const std::byte>>;
using Outputs = std::vector<absl::Span<std::byte>>;

// The tensor must be of the model's type and hold `rows` examples of the
// model's shape; how their dimensions are split does not matter.
absl::Status CheckTensor(const SlotTensor& tensor, const v1::TensorSpec& spec,
                         uint32_t rows) {
  uint64_t elements = rows;
  for (int64_t dimension : spec.shape()) {
    if (dimension >= 0) elements *= static_cast<uint64_t>(dimension);
  }
  const auto data_type = static_cast<uint32_t>(spec.data_type());
  const uint64_t bytes = elements * SlotElementBytes(data_type);
  if (tensor.data_type == data_type && tensor.bytes == bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor \"", spec.name(), "\": ", tensor.bytes, " bytes of data type ",
      tensor.data_type, " came for ", rows, " rows; the model wants ", bytes,
      " of data type ", data_type));
}

}  // namespace

absl::StatusOr<worker::v1::VersionReply> ServedModels::Load(
    const worker::v1::LoadVersion& request) {
  const auto loaded = models_.find(request.version_id());
  if (loaded != models_.end()) {
    return Describe(request.version_id(), *loaded->second);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ServedModel> model,
                   engine_->LoadModel(request));
  worker::v1::VersionReply reply = Describe(request.version_id(), *model);
  models_[request.version_id()] = std::move(model);
  return reply;
}

worker::v1::VersionReply ServedModels::Describe(
    uint64_t version_id, const ServedModel& model) const {
  worker::v1::VersionReply reply;
  reply.set_version_id(version_id);
  for (const v1::TensorSpec& spec : model.inputs()) *reply.add_inputs() = spec;
  for (const v1::TensorSpec& spec : model.outputs()) {
    *reply.add_outputs() = spec;
  }
  reply.set_measured_bytes(model.measured_bytes());
  return reply;
}

absl::Status ServedModels::Unload(uint64_t version_id) {
  if (models_.erase(version_id) == 0) {
    return absl::NotFoundError(
        absl::StrCat("version ", version_id, " is not loaded here"));
  }
  return absl::OkStatus();
}

std::vector<uint64_t> ServedModels::ids() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, model] : models_) ids.push_back(id);
  return ids;
}

absl::Status ServedModels::Answer(SlotRequest* request) {
  SlotHeader& header = request->header;
  header.wait_nanos = absl::ToInt64Nanoseconds(absl::Now() - request->seen);
  const auto found = models_.find(header.version_id);
  if (found == models_.end()) {
    return absl::NotFoundError(
        absl::StrCat("version ", header.version_id, " is not loaded here"));
  }
  ServedModel& model = *found->second;
  if (header.input_count != model.inputs().size() ||
      header.output_count != model.outputs().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request has ", header.input_count, " inputs and ",
                     header.output_count, " outputs; the model has ",
                     model.inputs().size(), " and ", model.outputs().size()));
  }
  Inputs inputs;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    const SlotTensor& tensor = header.inputs[i];
    RETURN_IF_ERROR(CheckTensor(tensor, model.inputs()[i], header.rows));
    inputs.push_back(request->payload.subspan(tensor.offset, tensor.bytes));
  }
  Outputs outputs;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    const SlotTensor& tensor = header.outputs[i];
    RETURN_IF_ERROR(CheckTensor(tensor, model.outputs()[i], header.rows));
    outputs.push_back(request->payload.subspan(tensor.offset, tensor.bytes));
  }
  const Clock::time_point start = Clock::now();
  const absl::Status status = model.Infer(header.rows, inputs, outputs);
  header.compute_nanos = std::chrono::nanoseconds(Clock::now() - start).count();
  return status;
}

}  // namespace gpupool::server
