#include "engine/import/onnx/text/text_source.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/text/text_graph.h"

namespace gpupool::engine::onnx_import {
namespace {

absl::Status OnlyServed(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("a model with texts is computed by the server and on no "
                   "device, so it cannot be ",
                   what));
}

class TextSource : public ModelSource {
 public:
  explicit TextSource(v1::Plan plan) : plan_(std::move(plan)) {}

  absl::StatusOr<ModelGraph> Build(const BuildOptions&) const override {
    return OnlyServed("trained or compiled");
  }
  const ServedSizes& served() const override { return served_; }
  const v1::Plan* text_plan() const override { return &plan_; }
  absl::Status ReadStored(absl::string_view name,
                          absl::Span<std::byte>) const override {
    return absl::NotFoundError(absl::StrCat(
        "a model with texts stores no weights, hence no \"", name, "\""));
  }
  absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>&) const override {
    return OnlyServed("exported; the uploaded file is the model");
  }

 private:
  const v1::Plan plan_;
  const ServedSizes served_;  // always empty
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelSource>> MakeTextSource(
    const v1::OnnxModel& model, const OnnxFile& file) {
  ASSIGN_OR_RETURN(v1::Plan plan, PlanTexts(file, model));
  return std::make_shared<TextSource>(std::move(plan));
}

}  // namespace gpupool::engine::onnx_import
