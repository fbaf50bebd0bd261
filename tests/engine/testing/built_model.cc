#include "tests/engine/testing/built_model.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace gpupool::engine::testing {
namespace {

class Source : public ModelSource {
 public:
  explicit Source(std::function<ModelGraph(const BuildOptions&)> build)
      : build_(std::move(build)) {}

  absl::StatusOr<ModelGraph> Build(const BuildOptions& options) const override {
    return build_(options);
  }
  const ServedSizes& served() const override { return served_; }
  absl::Status ReadStored(absl::string_view,
                          absl::Span<std::byte>) const override {
    return absl::NotFoundError("nothing is stored");
  }
  absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>&) const override {
    return absl::UnimplementedError("a model without a file");
  }

 private:
  const std::function<ModelGraph(const BuildOptions&)> build_;
  const ServedSizes served_;
};

template <typename T>
T Demand(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

Shape Batched(int64_t batch, const Shape& example) {
  std::vector<int64_t> dims = {batch};
  dims.insert(dims.end(), example.dims().begin(), example.dims().end());
  return Demand(Shape::Create(dims));
}

Shape ExampleOf(const Shape& batched) {
  return Demand(Shape::Create(batched.dims().subspan(1)));
}

}  // namespace

std::shared_ptr<const ModelSource> BuiltModel(
    std::function<ModelGraph(const BuildOptions&)> build) {
  return std::make_shared<Source>(std::move(build));
}

ModelAssembly::ModelAssembly(const BuildOptions& options)
    : options_(options),
      builder_(&model_.graph),
      kinds_(options_.training, &builder_, &model_.persistents) {
  builder_.SetSource("model", 0);
}

ValueId ModelAssembly::Input(const std::string& name, DType dtype,
                             const Shape& example) {
  const Shape shape = Batched(options_.batch, example);
  const ValueId value = Demand(builder_.Input(name, {dtype, shape}));
  model_.inputs.push_back({name, value, dtype, shape});
  if (model_.inputs.size() == 1) model_.input_shape = example;
  return value;
}

ValueId ModelAssembly::Weight(const std::string& name, const Shape& shape,
                              double bound) {
  return Demand(
      kinds_.Persistent(name, shape, MemoryClass::kWeight,
                        {.kind = Initializer::Kind::kUniform, .bound = bound}));
}

ValueId ModelAssembly::Layer(const std::string& name, const v1::Layer& layer,
                             ValueId x) {
  builder_.SetSource(name, ++layers_);
  return Demand(kinds_.Apply(layer, name, x));
}

ValueId ModelAssembly::Emit(Op op, const ValueIds& inputs,
                            Attributes attributes) {
  return Demand(builder_.EmitOne(op, inputs, std::move(attributes)));
}

ValueId ModelAssembly::Dense(const std::string& name, ValueId x,
                             int64_t units) {
  v1::Layer layer;
  layer.mutable_dense()->set_units(units);
  return Layer(name, layer, x);
}

ModelGraph ModelAssembly::Finish(const std::string& name, ValueId output) {
  const Shape shape = builder_.shape(output);
  model_.outputs = {{name, output, DType::kFloat32, shape}};
  model_.output_shape = ExampleOf(shape);
  model_.output = output;
  return std::move(model_);
}

}  // namespace gpupool::engine::testing
