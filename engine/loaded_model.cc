#include "engine/loaded_model.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/loaded_model_impl.h"
#include "engine/session_convert.h"
#include "engine/train/initial_weights.h"

namespace gpupool::engine {
namespace {

absl::Status CheckBytes(absl::string_view what, uint32_t rows,
                        const LoadedModel::Impl::Ports& ports, size_t index,
                        uint64_t found) {
  const uint64_t row_bytes = ports.row_bytes[index];
  if (found == rows * row_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " '", ports.specs[index].name(), "' has ", found, " bytes; ", rows,
      " rows of ", row_bytes, " bytes need ", rows * row_bytes));
}

LoadedModel::Impl::Ports Describe(const std::vector<ModelPort>& ports,
                                  bool batched) {
  LoadedModel::Impl::Ports described;
  for (const ModelPort& port : ports) {
    described.specs.push_back(ToProto(port, batched));
    // The programs described are those of a batch of one.
    described.row_bytes.push_back(port.shape.bytes(port.dtype));
  }
  return described;
}

}  // namespace

LoadedModel::Impl::Impl(const DeviceContext& device, const LoadRequest& request)
    : device_(device),
      request_(request),
      holder_(absl::StrCat("model ", request.name), device.allocator) {}

absl::StatusOr<std::unique_ptr<LoadedModel::Impl>> LoadedModel::Impl::Create(
    const DeviceContext& device, const LoadRequest& request) {
  std::unique_ptr<Impl> model(new Impl(device, request));
  RETURN_IF_ERROR(model->holder_.SetLimit(request.limit_bytes));
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ReadManifest(device.blob_dir, request.manifest_sha256));
  ASSIGN_OR_RETURN(const auto source,
                   ModelSource::Open(manifest.model, device.blob_dir));
  ASSIGN_OR_RETURN(InferencePrograms programs,
                   CompileInference(*source,
                                    {.input_scaling = manifest.input_scaling,
                                     .max_batch_size = request.max_batch_size},
                                    device.backend));
  model->inputs_ = Describe(programs.inputs, programs.batched);
  model->outputs_ = Describe(programs.outputs, programs.batched);
  model->max_batch_size_ = programs.max_batch_size();
  const std::vector<PersistentSpec> persistents =
      std::move(programs.persistents);
  RETURN_IF_ERROR(model->MakeExecutors(std::move(programs)));
  RETURN_IF_ERROR(model->SetWeights(manifest, *source, persistents));
  for (Bucket& bucket : model->buckets_) {
    RETURN_IF_ERROR(bucket.executor->Load());
  }
  return model;
}

absl::Status LoadedModel::Impl::MakeExecutors(InferencePrograms programs) {
  const uint64_t arena_bytes = ArenaBytesOf(programs);
  ASSIGN_OR_RETURN(
      weights_, WeightStore::Create(std::move(programs.layout), holder_.name(),
                                    device_.allocator));
  ASSIGN_OR_RETURN(arena_, device_.allocator->Allocate(
                               arena_bytes, {holder_.name(), "arena"}));
  const absl::Span<std::byte> arena(arena_.data(), arena_bytes);
  for (InferenceBucket& bucket : programs.buckets) {
    ASSIGN_OR_RETURN(
        std::unique_ptr<Executor> executor,
        Executor::Create(std::move(bucket.program), *weights_, arena,
                         holder_.name(), device_.allocator));
    buckets_.push_back({bucket.batch, std::move(executor)});
  }
  return absl::OkStatus();
}

absl::Status LoadedModel::Impl::SetWeights(
    const Manifest& manifest, const ModelSource& source,
    const std::vector<PersistentSpec>& persistents) {
  if (manifest.FindFile("weights") == nullptr && manifest.model.has_onnx()) {
    return SetInitialWeights(source, persistents, manifest.seed, *weights_);
  }
  std::vector<TensorBytes> tensors;
  for (const WeightEntry& entry : weights_->layout().entries()) {
    tensors.push_back(
        {{entry.name, entry.dtype, entry.shape}, weights_->bytes_of(entry)});
  }
  return ReadTensors(device_.blob_dir, manifest, "weights", tensors);
}

Executor& LoadedModel::Impl::BucketFor(uint32_t rows) {
  for (Bucket& bucket : buckets_) {
    if (bucket.batch >= int64_t{rows}) return *bucket.executor;
  }
  GPUPOOL_CHECK(false && "the largest bucket holds max_batch_size rows");
  return *buckets_.back().executor;
}

absl::Status LoadedModel::Impl::CheckBatch(const InferenceBatch& batch) const {
  if (batch.rows < 1 || batch.rows > max_batch_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.rows, " rows; ", request_.name,
                     " takes 1 to ", max_batch_size_));
  }
  if (batch.inputs.size() != inputs_.specs.size() ||
      batch.outputs.size() != outputs_.specs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(batch.inputs.size(), " inputs and ", batch.outputs.size(),
                     " outputs came; ", request_.name, " has ",
                     inputs_.specs.size(), " and ", outputs_.specs.size()));
  }
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    RETURN_IF_ERROR(
        CheckBytes("input", batch.rows, inputs_, i, batch.inputs[i].size()));
  }
  for (size_t i = 0; i < batch.outputs.size(); ++i) {
    RETURN_IF_ERROR(
        CheckBytes("output", batch.rows, outputs_, i, batch.outputs[i].size()));
  }
  return absl::OkStatus();
}

absl::Status LoadedModel::Impl::Infer(const InferenceBatch& batch) {
  RETURN_IF_ERROR(CheckBatch(batch));
  Executor& executor = BucketFor(batch.rows);
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const absl::Span<const std::byte> given = batch.inputs[i];
    const absl::Span<std::byte> staged =
        executor.input(inputs_.specs[i].name());
    std::memcpy(staged.data(), given.data(), given.size());
    std::memset(staged.data() + given.size(), 0, staged.size() - given.size());
  }
  RETURN_IF_ERROR(executor.Run());
  for (size_t i = 0; i < batch.outputs.size(); ++i) {
    std::memcpy(batch.outputs[i].data(),
                executor.output(outputs_.specs[i].name()).data(),
                batch.outputs[i].size());
  }
  return absl::OkStatus();
}

LoadedModel::LoadedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadedModel::~LoadedModel() = default;

const std::vector<v1::TensorSpec>& LoadedModel::inputs() const {
  return impl_->inputs().specs;
}
const std::vector<v1::TensorSpec>& LoadedModel::outputs() const {
  return impl_->outputs().specs;
}
const std::vector<uint64_t>& LoadedModel::input_row_bytes() const {
  return impl_->inputs().row_bytes;
}
const std::vector<uint64_t>& LoadedModel::output_row_bytes() const {
  return impl_->outputs().row_bytes;
}
uint32_t LoadedModel::max_batch_size() const { return impl_->max_batch_size(); }
uint64_t LoadedModel::measured_bytes() const { return impl_->measured_bytes(); }

absl::Status LoadedModel::Infer(const InferenceBatch& batch) {
  return impl_->Infer(batch);
}

}  // namespace gpupool::engine
