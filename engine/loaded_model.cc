#include "engine/loaded_model.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/loaded_model_impl.h"
#include "engine/train/checkpoint.h"

namespace gpupool::engine {
namespace {

absl::Status CheckBytes(const char* what, uint32_t rows, uint64_t row_bytes,
                        uint64_t found) {
  if (found == rows * row_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has ", found, " bytes; ", rows, " rows of ",
                   row_bytes, " bytes need ", rows * row_bytes));
}

}  // namespace

v1::TensorSpec BatchedSpec(const std::string& name, const Shape& example) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_data_type(v1::FLOAT32);
  spec.add_shape(-1);
  for (int64_t dimension : example.dims()) spec.add_shape(dimension);
  return spec;
}

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
  ASSIGN_OR_RETURN(InferencePrograms programs,
                   CompileInference(manifest.model,
                                    {.input_scaling = manifest.input_scaling,
                                     .max_batch_size = request.max_batch_size},
                                    device.backend));
  model->input_ = BatchedSpec("input", programs.input_shape);
  model->output_ = BatchedSpec("output", programs.output_shape);
  model->input_row_bytes_ = programs.input_shape.bytes(DType::kFloat32);
  model->output_row_bytes_ = programs.output_shape.bytes(DType::kFloat32);
  RETURN_IF_ERROR(model->MakeExecutors(std::move(programs)));
  std::vector<TensorBytes> tensors;
  for (const WeightEntry& entry : model->weights_->layout().entries()) {
    tensors.push_back({{entry.name, entry.dtype, entry.shape},
                       model->weights_->bytes_of(entry)});
  }
  RETURN_IF_ERROR(ReadTensors(device.blob_dir, manifest, "weights", tensors));
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

Executor& LoadedModel::Impl::BucketFor(uint32_t rows) {
  for (Bucket& bucket : buckets_) {
    if (bucket.batch >= int64_t{rows}) return *bucket.executor;
  }
  GPUPOOL_CHECK(false && "the largest bucket holds max_batch_size rows");
  return *buckets_.back().executor;
}

absl::Status LoadedModel::Impl::Infer(uint32_t rows,
                                      absl::Span<const std::byte> input,
                                      absl::Span<std::byte> output) {
  if (rows < 1 || rows > request_.max_batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", rows, " rows; ", request_.name,
                     " takes 1 to ", request_.max_batch_size));
  }
  RETURN_IF_ERROR(CheckBytes("input", rows, input_row_bytes_, input.size()));
  RETURN_IF_ERROR(CheckBytes("output", rows, output_row_bytes_, output.size()));
  Executor& executor = BucketFor(rows);
  const absl::Span<std::byte> staged = executor.input("input");
  std::memcpy(staged.data(), input.data(), input.size());
  std::memset(staged.data() + input.size(), 0, staged.size() - input.size());
  RETURN_IF_ERROR(executor.Run());
  std::memcpy(output.data(), executor.output("output").data(), output.size());
  return absl::OkStatus();
}

LoadedModel::LoadedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadedModel::~LoadedModel() = default;

const v1::TensorSpec& LoadedModel::input() const { return impl_->input(); }
const v1::TensorSpec& LoadedModel::output() const { return impl_->output(); }
uint64_t LoadedModel::input_row_bytes() const {
  return impl_->input_row_bytes();
}
uint64_t LoadedModel::output_row_bytes() const {
  return impl_->output_row_bytes();
}
uint32_t LoadedModel::max_batch_size() const { return impl_->max_batch_size(); }
uint64_t LoadedModel::measured_bytes() const { return impl_->measured_bytes(); }

absl::Status LoadedModel::Infer(uint32_t rows,
                                absl::Span<const std::byte> input,
                                absl::Span<std::byte> output) {
  return impl_->Infer(rows, input, output);
}

}  // namespace gpupool::engine
