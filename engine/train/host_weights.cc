#include "engine/train/host_weights.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Reads the weights that the model file stores.
absl::Status ReadFromModel(const ModelSource& source,
                           const std::vector<PersistentSpec>& persistents,
                           const std::vector<TensorBytes>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (persistents[i].initializer.kind != Initializer::Kind::kStored) {
      return absl::NotFoundError(
          absl::StrCat("the model file has no \"", persistents[i].name, "\""));
    }
    RETURN_IF_ERROR(source.ReadStored(persistents[i].name, tensors[i].bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HostWeights> HostWeights::Read(const std::string& blob_dir,
                                              const Manifest& manifest,
                                              const ModelSource& source) {
  ASSIGN_OR_RETURN(const ModelGraph model,
                   source.Build(AtLargestSizes(
                       source, {.input_scaling = manifest.input_scaling})));
  HostWeights weights;
  for (const PersistentSpec& spec : model.persistents) {
    std::vector<std::byte>& bytes =
        weights.bytes_.emplace_back(spec.shape.bytes(spec.dtype));
    weights.tensors_.push_back(
        {{spec.name, spec.dtype, spec.shape}, absl::MakeSpan(bytes)});
  }
  // An uploaded ONNX model without a safetensors file keeps its weights inside.
  if (manifest.FindFile("weights") == nullptr &&
      FilesHaveWeights(manifest.model)) {
    RETURN_IF_ERROR(ReadFromModel(source, model.persistents, weights.tensors_));
  } else {
    RETURN_IF_ERROR(
        ReadTensors(blob_dir, manifest, "weights", weights.tensors_));
  }
  return weights;
}

std::vector<WeightTensor> HostWeights::ToExport() const {
  std::vector<WeightTensor> weights;
  for (const TensorBytes& tensor : tensors_) {
    weights.push_back({tensor.facts.name, tensor.facts.dtype,
                       tensor.facts.shape, tensor.bytes});
  }
  return weights;
}

}  // namespace gpupool::engine
