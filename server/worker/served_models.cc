#include "server/worker/served_models.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/counted.h"
#include "engine/base/held_data_type.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using Clock = std::chrono::steady_clock;
using Inputs = std::vector<absl::Span<const std::byte>>;
using Outputs = std::vector<absl::Span<std::byte>>;

constexpr int64_t kUnknownSize = -1;

// Checks that the tensor has the type that holds the model's, and `rows`
// examples of its shape. The split into dimensions does not matter, except for
// varying ones.
absl::Status CheckTensor(const SlotTensor& tensor, const v1::TensorSpec& spec,
                         uint32_t rows) {
  uint64_t elements = rows;
  for (int64_t dimension : spec.shape()) {
    if (dimension >= 0) elements *= static_cast<uint64_t>(dimension);
  }
  // The ring has checked that the dimensions agree with the bytes.
  for (const v1::VariableDimension& variable : spec.variable()) {
    elements *= static_cast<uint64_t>(tensor.dims[variable.axis()]);
  }
  const uint32_t data_type =
      engine::HeldDataType(static_cast<uint32_t>(spec.data_type()));
  const uint64_t bytes = elements * SlotElementBytes(data_type);
  if (tensor.data_type == data_type && tensor.bytes == bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor \"", spec.name(), "\": ", tensor.bytes, " bytes of data type ",
      tensor.data_type, " came for ", engine::Counted(rows, "row"),
      "; the model wants ", bytes, " of data type ", data_type));
}

// Reads the sizes of the model's dimensions from one tensor. Known sizes must
// agree. The model itself checks the sizes that follow from them.
absl::Status TakeSizes(const SlotTensor& tensor, const v1::TensorSpec& spec,
                       const std::vector<std::string>& names,
                       std::vector<int64_t>& sizes) {
  if (spec.variable().empty()) return absl::OkStatus();
  if (tensor.rank != static_cast<uint32_t>(spec.shape_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", spec.name(), "\" has ", tensor.rank,
                     " dimensions; the model's has ", spec.shape_size()));
  }
  for (const v1::VariableDimension& variable : spec.variable()) {
    const int64_t size = tensor.dims[variable.axis()];
    const auto found = std::find(names.begin(), names.end(), variable.name());
    if (found == names.end()) continue;
    int64_t& known = sizes[static_cast<size_t>(found - names.begin())];
    if (size < 0 || size > variable.maximum() ||
        (known != kUnknownSize && known != size)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", spec.name(), "\" has ", size, " for dimension \"",
          variable.name(), "\"; it is ",
          known == kUnknownSize ? "" : absl::StrCat(known, " elsewhere and "),
          "at most ", variable.maximum()));
    }
    known = size;
  }
  return absl::OkStatus();
}

// Reports the dimensions of outputs that are not as the request asked. Even
// their number may differ, if it follows from numbers of bound inputs.
void SetOutputDims(const engine::InferenceAnswer& answer, SlotHeader& header) {
  const size_t count =
      std::min<size_t>(answer.shapes.size(), header.output_count);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<int64_t>& shape = answer.shapes[i];
    const SlotTensor& asked = header.outputs[i];
    if (std::equal(shape.begin(), shape.end(), asked.dims,
                   asked.dims + asked.rank)) {
      continue;
    }
    header.output_ranks[i] = static_cast<uint32_t>(shape.size()) + 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      header.output_dims[i][d] = static_cast<uint32_t>(shape[d]);
    }
  }
}

}  // namespace

absl::StatusOr<worker::v1::VersionReply> ServedModels::Load(
    const worker::v1::LoadVersion& request) {
  const auto loaded = models_.find(request.version_id());
  if (loaded != models_.end()) {
    return Describe(request.version_id(), *loaded->second);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<engine::ServedModel> model,
                   engine_->LoadModel(request));
  worker::v1::VersionReply reply = Describe(request.version_id(), *model);
  models_[request.version_id()] = std::move(model);
  return reply;
}

worker::v1::VersionReply ServedModels::Describe(
    uint64_t version_id, const engine::ServedModel& model) const {
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

absl::StatusOr<engine::ServedModel*> ServedModels::Find(
    uint64_t version_id) const {
  const auto found = models_.find(version_id);
  if (found != models_.end()) return found->second.get();
  return absl::NotFoundError(
      absl::StrCat("version ", version_id, " is not loaded here"));
}

absl::Status ServedModels::Answer(SlotRequest* request) {
  SlotHeader& header = request->header;
  header.wait_nanos = absl::ToInt64Nanoseconds(absl::Now() - request->seen);
  ASSIGN_OR_RETURN(engine::ServedModel* const found, Find(header.version_id));
  engine::ServedModel& model = *found;
  if (header.input_count != model.inputs().size() ||
      header.output_count != model.outputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a request has ", engine::Counted(header.input_count, "input"), " and ",
        engine::Counted(header.output_count, "output"), "; the model has ",
        model.inputs().size(), " and ", model.outputs().size()));
  }
  return Compute(model, request);
}

// Checks all tensors before any is computed on. The daemon is trusted no more
// than a client: the slot is shared memory.
absl::Status ServedModels::Compute(engine::ServedModel& model,
                                   SlotRequest* request) {
  SlotHeader& header = request->header;
  std::vector<int64_t> sizes(model.dimensions().size(), kUnknownSize);
  Inputs inputs;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    const SlotTensor& tensor = header.inputs[i];
    const v1::TensorSpec& spec = model.inputs()[i];
    RETURN_IF_ERROR(TakeSizes(tensor, spec, model.dimensions(), sizes));
    RETURN_IF_ERROR(CheckTensor(tensor, spec, header.rows));
    inputs.push_back(request->payload.subspan(tensor.offset, tensor.bytes));
  }
  Outputs outputs;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    const SlotTensor& tensor = header.outputs[i];
    const v1::TensorSpec& spec = model.outputs()[i];
    RETURN_IF_ERROR(TakeSizes(tensor, spec, model.dimensions(), sizes));
    RETURN_IF_ERROR(CheckTensor(tensor, spec, header.rows));
    outputs.push_back(request->payload.subspan(tensor.offset, tensor.bytes));
  }
  // A dimension in which no tensor varies has one size, which is 1.
  std::replace(sizes.begin(), sizes.end(), kUnknownSize, int64_t{1});
  const Clock::time_point start = Clock::now();
  engine::InferenceAnswer answer;
  const absl::Status status =
      model.Infer({header.rows, sizes, inputs, outputs}, &answer);
  header.compute_nanos = std::chrono::nanoseconds(Clock::now() - start).count();
  header.compiled_programs = answer.compiled;
  header.evicted_programs = answer.evicted;
  if (status.ok()) SetOutputDims(answer, header);
  return status;
}

}  // namespace gpupool::server
