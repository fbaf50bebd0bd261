#include "engine/model/weights_source.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/model_blob.h"
#include "engine/model/safetensors.h"
#include "engine/tensor/convert.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

// Most names of one kind that an error lists, and most bytes of a name.
constexpr size_t kMaxNames = 10;
constexpr size_t kMaxNameBytes = 100;

std::string Quoted(const std::string& name) {
  return absl::StrCat("'", absl::CHexEscape(name.substr(0, kMaxNameBytes)),
                      "'");
}

// Collects the differences between the tensors of a file and of a model.
struct Differences {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> shapes;
  std::vector<std::string> types;

  // Returns OK if there are none.
  absl::Status ToStatus() const {
    std::vector<std::string> parts;
    Add(missing, "missing", parts);
    Add(unexpected, "not in the model", parts);
    Add(shapes, "of another shape", parts);
    Add(types, "of another type", parts);
    if (parts.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "model.weights: the file does not have the model's tensors: ",
        absl::StrJoin(parts, "; "),
        "; `gpupool models export MODEL --format safetensors` writes a file "
        "with the names and shapes of a version"));
  }

 private:
  static void Add(std::vector<std::string> names, absl::string_view what,
                  std::vector<std::string>& parts) {
    if (names.empty()) return;
    std::sort(names.begin(), names.end());
    const size_t count = names.size(), shown = std::min(count, kMaxNames);
    std::string text =
        absl::StrCat(count, " ", what, ": ",
                     absl::StrJoin(names.begin(), names.begin() + shown, ", "));
    if (count > shown) absl::StrAppend(&text, " and ", count - shown, " more");
    parts.push_back(std::move(text));
  }
};

bool MayBeAbsent(const PersistentSpec& spec) {
  return spec.buffer || !IsFloating(spec.dtype);
}

// A tensor of the file and the type that the model wants it in.
struct Weight {
  TensorView view;
  DType dtype = DType::kFloat32;
};

class WeightsSource : public ModelSource {
 public:
  WeightsSource(std::shared_ptr<const ModelSource> model, MappedFile file)
      : model_(std::move(model)), file_(std::move(file)) {}

  // Matches the tensors of the file with the model's.
  absl::Status Match() {
    ASSIGN_OR_RETURN(
        std::vector<TensorView> views,
        ParseSafetensors({file_.bytes().data(), file_.bytes().size()}));
    for (TensorView& view : views) {
      const std::string name = view.facts.name;
      weights_[name] = {std::move(view)};
    }
    ASSIGN_OR_RETURN(const ModelGraph graph,
                     model_->Build(AtLargestSizes(*model_, {})));
    Differences differences;
    absl::flat_hash_map<std::string, Weight> matched;
    for (const PersistentSpec& spec : graph.persistents) {
      MatchOne(spec, matched, differences);
    }
    for (const auto& [name, weight] : weights_) {
      if (matched.contains(name) || !IsFloating(weight.view.facts.dtype)) {
        continue;
      }
      differences.unexpected.push_back(Quoted(name));
    }
    weights_ = std::move(matched);
    return differences.ToStatus();
  }

  absl::StatusOr<ModelGraph> Build(const BuildOptions& options) const override {
    ASSIGN_OR_RETURN(ModelGraph graph, model_->Build(options));
    for (PersistentSpec& spec : graph.persistents) {
      if (!weights_.contains(spec.name)) continue;
      spec.initializer = {.kind = Initializer::Kind::kStored};
    }
    return graph;
  }

  const ServedSizes& served() const override { return model_->served(); }

  absl::Status CheckNames() const override { return model_->CheckNames(); }

  bool stores_halves() const override { return model_->stores_halves(); }

  absl::Status ReadStored(absl::string_view name,
                          absl::Span<std::byte> to) const override {
    const auto found = weights_.find(name);
    if (found == weights_.end()) return model_->ReadStored(name, to);
    const auto& [view, dtype] = found->second;
    const uint64_t bytes = view.facts.shape.bytes(dtype);
    if (bytes != to.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "weight \"", name, "\" has ", bytes, " bytes, not ", to.size()));
    }
    ConvertElements({view.facts.dtype,
                     reinterpret_cast<const std::byte*>(view.bytes.data())},
                    {dtype, to.data()}, view.facts.shape.elements());
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>& weights) const override {
    return model_->ExportOnnx(weights);
  }

 private:
  void MatchOne(const PersistentSpec& spec,
                absl::flat_hash_map<std::string, Weight>& matched,
                Differences& differences) const {
    const auto found = weights_.find(spec.name);
    if (found == weights_.end()) {
      if (!MayBeAbsent(spec)) differences.missing.push_back(Quoted(spec.name));
      return;
    }
    const TensorFacts& facts = found->second.view.facts;
    matched[spec.name] = {found->second.view, spec.dtype};
    if (facts.shape != spec.shape) {
      differences.shapes.push_back(
          absl::StrCat(Quoted(spec.name), " (", facts.shape.ToString(),
                       ", the model has ", spec.shape.ToString(), ")"));
    }
    const bool converts = IsFloating(facts.dtype) && IsFloating(spec.dtype);
    if (facts.dtype != spec.dtype && !converts) {
      differences.types.push_back(
          absl::StrCat(Quoted(spec.name), " (", DTypeName(facts.dtype),
                       ", the model has ", DTypeName(spec.dtype), ")"));
    }
  }

  const std::shared_ptr<const ModelSource> model_;
  const MappedFile file_;
  // Refer to the file's bytes.
  absl::flat_hash_map<std::string, Weight> weights_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelSource>> WithWeights(
    std::shared_ptr<const ModelSource> model, const v1::WeightsFile& file,
    const std::string& blob_dir) {
  ASSIGN_OR_RETURN(MappedFile blob, OpenModelBlob(blob_dir, file.sha256(),
                                                  file.bytes(), "weights"));
  auto source =
      std::make_shared<WeightsSource>(std::move(model), std::move(blob));
  RETURN_IF_ERROR(source->Match());
  return source;
}

}  // namespace gpupool::engine
