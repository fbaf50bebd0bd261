#include "engine/model/model_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/export/export_layers.h"
#include "engine/import/onnx/onnx_model_source.h"
#include "engine/model/spec/named_models.h"
#include "engine/model/weights_source.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

class LayerModelSource : public ModelSource {
 public:
  explicit LayerModelSource(v1::ModelSpec spec) : spec_(std::move(spec)) {}

  absl::StatusOr<ModelGraph> Build(const BuildOptions& options) const override {
    return BuildModel(spec_, options);
  }

  const ServedSizes& served() const override { return served_; }

  absl::Status ReadStored(absl::string_view name,
                          absl::Span<std::byte>) const override {
    return absl::NotFoundError(absl::StrCat(
        "a chain of layers stores no weights, hence no \"", name, "\""));
  }

  absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>& weights) const override {
    ASSIGN_OR_RETURN(const ModelGraph model, Build({}));
    return onnx_import::ExportLayers(spec_, model, weights);
  }

 private:
  const v1::ModelSpec spec_;
  const ServedSizes served_;  // always empty
};

absl::StatusOr<std::shared_ptr<const ModelSource>> OpenWithoutWeights(
    const v1::ModelSpec& spec, const std::string& blob_dir) {
  if (!spec.has_onnx()) {
    ASSIGN_OR_RETURN(v1::ModelSpec layers, ExpandNamed(spec));
    return std::make_shared<LayerModelSource>(std::move(layers));
  }
  if (spec.layers_size() > 0 || spec.input_shape_size() > 0 ||
      spec.has_named()) {
    return absl::InvalidArgumentError(
        "a model is either layers or an ONNX file; this one has both");
  }
  return onnx_import::OpenOnnxModel(spec.onnx(), blob_dir);
}

}  // namespace

BuildOptions AtLargestSizes(const ModelSource& source, BuildOptions options) {
  for (const ServedDimension& dimension : source.served().dimensions) {
    options.dimensions[dimension.name] = dimension.maximum;
  }
  options.bound.insert(source.served().bound.begin(),
                       source.served().bound.end());
  return options;
}

absl::StatusOr<std::shared_ptr<const ModelSource>> ModelSource::Open(
    const v1::ModelSpec& spec, const std::string& blob_dir) {
  ASSIGN_OR_RETURN(auto source, OpenWithoutWeights(spec, blob_dir));
  if (!spec.has_weights()) return source;
  return WithWeights(std::move(source), spec.weights(), blob_dir);
}

}  // namespace gpupool::engine
