#include "tests/engine/train/tiny_transformer.h"

#include <cmath>
#include <string>

#include "engine/base/check.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::testing {
namespace {

class Assembly {
 public:
  Assembly(const TransformerSizes& sizes, const BuildOptions& options)
      : s_(sizes), batch_(options.batch), training_(options.training) {
    builder_.SetSource("transformer", 0);
  }

  ModelGraph Build() {
    const TensorType type{DType::kInt64, {batch_, s_.tokens}};
    const ValueId tokens = *builder_.Input("tokens", type);
    ValueId x = Emit(Op::kGather,
                     {Weight("table", {s_.vocabulary, s_.width}, 1), tokens},
                     AxisAttributes{0});
    x = Sum(x, Weight("position", {s_.tokens, s_.width}, 1));
    x = Rows(x);
    x = Sum(x, Attend(Norm("norm1", x)));
    x = Sum(x, Widen(Norm("norm2", x)));
    x = Dense("scores", Norm("norm3", x), s_.vocabulary);
    x = Reshape(x, {batch_, s_.tokens, s_.vocabulary});
    model_.inputs = {{"tokens", tokens, DType::kInt64, type.shape}};
    model_.outputs = {{"scores", x, DType::kFloat32, builder_.shape(x)}};
    model_.input_shape = {s_.tokens};
    model_.output_shape = {s_.tokens, s_.vocabulary};
    model_.output = x;
    return std::move(model_);
  }

 private:
  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    auto result = builder_.EmitOne(op, inputs, std::move(attributes));
    GPUPOOL_CHECK(result.ok());
    return *result;
  }
  ValueId Weight(const std::string& name, const Shape& shape, double bound,
                 double value = 0) {
    using Kind = Initializer::Kind;
    model_.persistents.push_back(
        {.name = name,
         .shape = shape,
         .initializer = {bound > 0 ? Kind::kUniform : Kind::kConstant, value,
                         bound}});
    return *builder_.Persistent(name, {DType::kFloat32, shape},
                                MemoryClass::kWeight);
  }
  ValueId Sum(ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{});
  }
  ValueId Reshape(ValueId x, const Shape& shape) {
    return Emit(Op::kReshape, {x}, ShapeAttributes{shape});
  }
  ValueId Rows(ValueId x) { return Reshape(x, {batch_ * s_.tokens, s_.width}); }
  ValueId Dense(const std::string& name, ValueId x, int64_t columns) {
    const int64_t inner = builder_.shape(x)[1];
    const double bound = 1 / std::sqrt(static_cast<double>(inner));
    MatMulAttributes matmul;
    matmul.epilogue.bias = true;
    return Emit(Op::kMatMul,
                {x, Weight(name + ".weight", {inner, columns}, bound),
                 Weight(name + ".bias", {columns}, bound)},
                matmul);
  }
  ValueId Norm(const std::string& name, ValueId x) {
    return Emit(Op::kLayerNorm,
                {x, Weight(name + ".weight", {s_.width}, 0, 1),
                 Weight(name + ".bias", {s_.width}, 0)},
                NormAttributes{.with_statistics = training_});
  }
  ValueId Heads(const std::string& name, ValueId x) {
    x = Reshape(Dense(name, x, s_.width),
                {batch_, s_.tokens, s_.heads, s_.width / s_.heads});
    return Emit(Op::kTranspose, {x}, TransposeAttributes{{0, 2, 1, 3}});
  }
  ValueId Attend(ValueId x) {
    const auto depth = static_cast<double>(s_.width / s_.heads);
    ValueId y = Emit(Op::kAttention,
                     {Heads("query", x), Heads("key", x), Heads("value", x)},
                     AttentionAttributes{.scale = 1 / std::sqrt(depth),
                                         .causal = true,
                                         .with_lse = training_});
    y = Emit(Op::kTranspose, {y}, TransposeAttributes{{0, 2, 1, 3}});
    return Dense("out", Rows(y), s_.width);
  }
  ValueId Widen(ValueId x) {
    x = Emit(Op::kGelu, {Dense("up", x, 4 * s_.width)}, GeluAttributes{});
    return Dense("down", x, s_.width);
  }

  const TransformerSizes s_;
  const int64_t batch_;
  const bool training_;
  ModelGraph model_;
  GraphBuilder builder_{&model_.graph};
};

class Source : public ModelSource {
 public:
  explicit Source(const TransformerSizes& sizes) : sizes_(sizes) {}

  absl::StatusOr<ModelGraph> Build(const BuildOptions& options) const override {
    return Assembly(sizes_, options).Build();
  }
  const ServedSizes& served() const override { return served_; }
  absl::Status ReadStored(absl::string_view,
                          absl::Span<std::byte>) const override {
    return absl::NotFoundError("nothing is stored");
  }
  absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>&) const override {
    return absl::UnimplementedError("a model of a test");
  }

 private:
  const TransformerSizes sizes_;
  const ServedSizes served_;
};

}  // namespace

std::shared_ptr<const ModelSource> TinyTransformer(
    const TransformerSizes& sizes) {
  return std::make_shared<Source>(sizes);
}

}  // namespace gpupool::engine::testing
