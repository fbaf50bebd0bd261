#include "engine/model/layer_spec.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/model/layers/layer_checks.h"
#include "engine/model/layers/layer_kinds.h"
#include "engine/model/spec/layer_names.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

constexpr int64_t kMaxBatch = int64_t{1} << 31;

absl::StatusOr<Shape> InputShape(const v1::ModelSpec& spec) {
  const auto& dims = spec.input_shape();
  if (dims.empty()) {
    return absl::InvalidArgumentError(
        "input_shape is empty; write the shape of one example, such as "
        "[1, 8, 8]");
  }
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input_shape: ", shape.status().message()));
  }
  if (shape->rank() > kMaxExampleRank ||
      shape->elements() > kMaxInputElements) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input_shape ", shape->ToString(), ": at most ", kMaxExampleRank,
        " dimensions and ", kMaxInputElements, " numbers are possible"));
  }
  return *shape;
}

absl::StatusOr<Shape> WithBatch(int64_t batch, const Shape& example) {
  if (batch < 1 || batch > kMaxBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch size ", batch, " must be from 1 to ", kMaxBatch));
  }
  std::vector<int64_t> dims{batch};
  dims.insert(dims.end(), example.dims().begin(), example.dims().end());
  return Shape::Create(dims);
}

Shape WithoutBatch(const Shape& shape) {
  return *Shape::Create(shape.dims().subspan(1));
}

}  // namespace

Shape ModelPort::example() const {
  return batched ? WithoutBatch(shape) : shape;
}

namespace {

// Adds the layer's name to an error. Errors of the graph's rules begin with it
// already, so they only get the shape of the input.
absl::Status InLayer(const std::string& name, const Shape& input,
                     const absl::Status& status) {
  const std::string prefix = absl::StrCat("layer '", name, "': ");
  if (absl::StartsWith(status.message(), prefix)) {
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), " (the layer's input ",
                                     "is ", ExampleShapeText(input), ")"));
  }
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

class ModelBuilder {
 public:
  ModelBuilder(const v1::ModelSpec& spec, const BuildOptions& options)
      : spec_(spec),
        options_(options),
        builder_(&model_.graph),
        kinds_(options_.training, &builder_, &model_.persistents) {}

  absl::StatusOr<ModelGraph> Build() {
    RETURN_IF_ERROR(CheckLength());
    ASSIGN_OR_RETURN(ValueId x, AddInput());
    kinds_.Remember("input", x);
    RETURN_IF_ERROR(CheckReferences(spec_));
    for (int i = 0; i < spec_.layers_size(); ++i) {
      ASSIGN_OR_RETURN(x, AddLayer(i, x));
    }
    model_.output = x;
    model_.output_shape = WithoutBatch(builder_.shape(x));
    model_.outputs = {{"output", x, DType::kFloat32, builder_.shape(x)}};
    return std::move(model_);
  }

 private:
  absl::Status CheckLength() const {
    if (spec_.layers_size() >= 1 && spec_.layers_size() <= kMaxLayers) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", spec_.layers_size(),
                     " layers; it needs from 1 to ", kMaxLayers));
  }

  absl::StatusOr<ValueId> AddInput() {
    ASSIGN_OR_RETURN(model_.input_shape, InputShape(spec_));
    ASSIGN_OR_RETURN(const Shape shape,
                     WithBatch(options_.batch, model_.input_shape));
    builder_.SetSource("input", -1);
    const bool tokens = ReadsTokens(spec_);
    const DType dtype = tokens ? DType::kInt64 : DType::kFloat32;
    ASSIGN_OR_RETURN(const ValueId input,
                     builder_.Input("input", {dtype, shape}));
    model_.inputs = {{"input", input, dtype, shape}};
    if (!options_.input_scaling) return input;
    if (tokens) {
      return absl::InvalidArgumentError(
          "data.scaling scales the model's input, but that has whole numbers, "
          "which an embedding reads; leave it out");
    }
    ASSIGN_OR_RETURN(const ValueId scale,
                     kinds_.Persistent("input.scale", model_.input_shape,
                                       MemoryClass::kState, {.value = 1}));
    ASSIGN_OR_RETURN(const ValueId shift,
                     kinds_.Persistent("input.shift", model_.input_shape,
                                       MemoryClass::kState, {.value = 0}));
    return builder_.EmitOne(Op::kScaleShift, {input, scale, shift});
  }

  // Adds a layer to the output `previous` of the layer before it, or to the
  // output that its `input` names.
  absl::StatusOr<ValueId> AddLayer(int position, ValueId previous) {
    const v1::Layer& layer = spec_.layers(position);
    const std::string name = LayerName(layer, position);
    const ValueId x =
        layer.input().empty() ? previous : kinds_.Output(layer.input());
    builder_.SetSource(name, position);
    const LayerStart start{.node = model_.graph.nodes().size(),
                           .persistent = model_.persistents.size()};
    absl::StatusOr<ValueId> y = kinds_.Apply(layer, name, x);
    if (!y.ok()) return InLayer(name, builder_.shape(x), y.status());
    kinds_.Remember(name, *y);
    Describe(layer, name, *y, start);
    return y;
  }

  // The position of a layer's first node and of its first persistent value.
  struct LayerStart {
    size_t node, persistent;
  };

  void Describe(const v1::Layer& layer, const std::string& name, ValueId y,
                const LayerStart& start) {
    LayerInfo info{.name = name,
                   .kind = LayerKindName(layer),
                   .output_shape = WithoutBatch(builder_.shape(y))};
    for (const PersistentSpec& persistent :
         absl::MakeSpan(model_.persistents).subspan(start.persistent)) {
      if (persistent.memory_class != MemoryClass::kWeight) continue;
      info.parameters += static_cast<uint64_t>(persistent.shape.elements());
    }
    for (const Node& node : model_.graph.nodes().subspan(start.node)) {
      info.flops += NodeFlops(model_.graph, node);
    }
    // The batch's operations, divided by its examples.
    info.flops /= static_cast<uint64_t>(options_.batch);
    model_.layers.push_back(std::move(info));
  }

  const v1::ModelSpec& spec_;
  const BuildOptions options_;
  ModelGraph model_;
  GraphBuilder builder_;
  LayerKinds kinds_;
};

}  // namespace

uint64_t ModelGraph::parameters() const {
  uint64_t total = 0;
  for (const PersistentSpec& persistent : persistents) {
    if (persistent.is_parameter()) {
      total += static_cast<uint64_t>(persistent.shape.elements());
    }
  }
  return total;
}

absl::StatusOr<ModelGraph> BuildModel(const v1::ModelSpec& spec,
                                      const BuildOptions& options) {
  return ModelBuilder(spec, options).Build();
}

}  // namespace gpupool::engine
