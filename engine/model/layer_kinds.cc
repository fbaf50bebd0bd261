#include "engine/model/layer_kinds.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/philox.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

// Parses one number for both axes, or height and width.
template <typename Numbers>
absl::StatusOr<Extent> ParseExtent(absl::string_view what,
                                   const Numbers& numbers,
                                   absl::optional<Extent> fallback) {
  if (numbers.empty() && fallback.has_value()) return *fallback;
  if (numbers.size() == 1) return Extent{numbers[0], numbers[0]};
  if (numbers.size() == 2) return Extent{numbers[0], numbers[1]};
  return Refuse(what, " has ", numbers.size(),
                " numbers; write one for both axes or height and width");
}

// Returns the initializer U(-1/sqrt(fan_in), 1/sqrt(fan_in)), as in PyTorch's
// Linear and Conv2d.
Initializer FanInUniform(int64_t fan_in) {
  return {.kind = Initializer::Kind::kUniform,
          .bound = 1.0 / std::sqrt(static_cast<double>(fan_in))};
}

// Returns N(0, 2 / fan_out).
Initializer KaimingNormal(int64_t fan_out) {
  return {.kind = Initializer::Kind::kNormal,
          .deviation = std::sqrt(2.0 / static_cast<double>(fan_out))};
}

absl::Status CheckInitial(const v1::Layer& layer) {
  switch (layer.initial_weight()) {
    case v1::Layer::INITIAL_UNSPECIFIED:
      return absl::OkStatus();
    case v1::Layer::KAIMING_NORMAL:
      if (layer.has_dense() || layer.has_conv2d()) return absl::OkStatus();
      return Refuse("initial_weight is for dense and conv2d");
    default:
      return Refuse("initial_weight is ",
                    static_cast<int>(layer.initial_weight()),
                    ", which this server does not know");
  }
}

absl::Status CheckEpsilon(double epsilon) {
  if (epsilon > 0 && std::isfinite(epsilon)) return absl::OkStatus();
  return Refuse("epsilon ", epsilon, " must be above 0");
}

absl::Status CheckCount(absl::string_view what, int64_t count) {
  if (count >= 1) return absl::OkStatus();
  return Refuse(what, " is ", count, " but must be at least 1");
}

}  // namespace

std::string ExampleShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape.dims().subspan(1), ", "), "]");
}

absl::StatusOr<ValueId> LayerKinds::Persistent(absl::string_view name,
                                               const Shape& shape,
                                               MemoryClass memory_class,
                                               const Initializer& initializer) {
  ASSIGN_OR_RETURN(
      const ValueId id,
      builder_->Persistent(name, {DType::kFloat32, shape}, memory_class));
  persistents_->push_back({.name = std::string(name),
                           .shape = shape,
                           .memory_class = memory_class,
                           .initializer = initializer});
  return id;
}

absl::Status LayerKinds::NeedImage(ValueId x) const {
  const Shape& shape = builder_->shape(x);
  if (shape.rank() == 4) return absl::OkStatus();
  return Refuse("needs an image [channels, height, width], but its input is ",
                ExampleShapeText(shape));
}

absl::StatusOr<ValueId> LayerKinds::Apply(const v1::Layer& layer,
                                          absl::string_view name, ValueId x) {
  RETURN_IF_ERROR(CheckInitial(layer));
  kaiming_ = layer.initial_weight() == v1::Layer::KAIMING_NORMAL;
  switch (layer.kind_case()) {
    case v1::Layer::kDense:
      return Dense(layer.dense(), name, x);
    case v1::Layer::kConv2D:
      return Conv2d(layer.conv2d(), name, x);
    case v1::Layer::kRelu:
      return builder_->EmitOne(Op::kRelu, {x});
    case v1::Layer::kGelu:
      return builder_->EmitOne(
          Op::kGelu, {x}, GeluAttributes{layer.gelu().tanh_approximation()});
    case v1::Layer::kSigmoid:
      return builder_->EmitOne(Op::kSigmoid, {x});
    case v1::Layer::kTanh:
      return builder_->EmitOne(Op::kTanh, {x});
    case v1::Layer::kMaxPool:
      return Pool(Op::kMaxPool, layer.max_pool(), x);
    case v1::Layer::kAvgPool:
      return Pool(Op::kAvgPool, layer.avg_pool(), x);
    case v1::Layer::kGlobalAvgPool:
      RETURN_IF_ERROR(NeedImage(x));
      return builder_->EmitOne(Op::kGlobalAvgPool, {x});
    case v1::Layer::kFlatten:
      return Flatten(x);
    case v1::Layer::kBatchNorm:
      return BatchNorm(layer.batch_norm(), name, x);
    case v1::Layer::kLayerNorm:
      return LayerNorm(layer.layer_norm(), name, x);
    case v1::Layer::kDropout:
      return Dropout(layer.dropout(), name, x);
    case v1::Layer::kSoftmax:
      return builder_->EmitOne(Op::kSoftmax, {x});
    case v1::Layer::kLogSoftmax:
      return builder_->EmitOne(Op::kLogSoftmax, {x});
    case v1::Layer::kAdd:
      return Add(layer.add(), x);
    default:
      break;
  }
  return Refuse("has no kind, or one that this server does not know");
}

// Treats leading dimensions as rows: [batch, ..., in] is multiplied as a
// matrix.
absl::StatusOr<ValueId> LayerKinds::Dense(const v1::Dense& dense, Name name,
                                          ValueId x) {
  RETURN_IF_ERROR(CheckCount("units", dense.units()));
  const Shape input = builder_->shape(x);
  const int64_t in = input[input.rank() - 1];
  const int64_t weight_dims[] = {dense.units(), in};
  ASSIGN_OR_RETURN(const Shape weight_shape, Shape::Create(weight_dims));
  ASSIGN_OR_RETURN(
      const ValueId weight,
      Persistent(absl::StrCat(name, ".weight"), weight_shape,
                 MemoryClass::kWeight,
                 kaiming_ ? KaimingNormal(dense.units()) : FanInUniform(in)));
  MatMulAttributes matmul{.transpose_b = true};
  ValueIds inputs{x, weight};
  if (!dense.has_bias() || dense.bias()) {
    matmul.epilogue.bias = true;
    ASSIGN_OR_RETURN(const ValueId bias,
                     Persistent(absl::StrCat(name, ".bias"), {dense.units()},
                                MemoryClass::kWeight, FanInUniform(in)));
    inputs.push_back(bias);
  }
  if (input.rank() == 2) return builder_->EmitOne(Op::kMatMul, inputs, matmul);
  // The product op takes only matrices.
  const Shape rows{input.elements() / in, in};
  ASSIGN_OR_RETURN(inputs[0],
                   builder_->EmitOne(Op::kReshape, {x}, ShapeAttributes{rows}));
  ASSIGN_OR_RETURN(const ValueId y,
                   builder_->EmitOne(Op::kMatMul, inputs, matmul));
  std::vector<int64_t> dims(input.dims().begin(), input.dims().end());
  dims.back() = dense.units();
  ASSIGN_OR_RETURN(const Shape output, Shape::Create(dims));
  return builder_->EmitOne(Op::kReshape, {y}, ShapeAttributes{output});
}

absl::StatusOr<ValueId> LayerKinds::Conv2d(const v1::Conv2d& conv, Name name,
                                           ValueId x) {
  RETURN_IF_ERROR(NeedImage(x));
  RETURN_IF_ERROR(CheckCount("filters", conv.filters()));
  Conv2dAttributes attributes;
  ASSIGN_OR_RETURN(const Extent kernel,
                   ParseExtent("kernel", conv.kernel(), {}));
  ASSIGN_OR_RETURN(attributes.stride,
                   ParseExtent("stride", conv.stride(), Extent{1, 1}));
  ASSIGN_OR_RETURN(const Extent padding,
                   ParseExtent("padding", conv.padding(), Extent{0, 0}));
  attributes.padding = Padding(padding);
  ASSIGN_OR_RETURN(attributes.dilation,
                   ParseExtent("dilation", conv.dilation(), Extent{1, 1}));
  attributes.groups = conv.groups() == 0 ? 1 : conv.groups();
  const int64_t channels = builder_->shape(x)[1];
  if (attributes.groups < 1 || channels % attributes.groups != 0 ||
      conv.filters() % attributes.groups != 0) {
    return Refuse("groups ", attributes.groups, " must divide the ", channels,
                  " input channels and the ", conv.filters(), " filters");
  }
  const int64_t dims[] = {conv.filters(), channels / attributes.groups,
                          kernel.h, kernel.w};
  ASSIGN_OR_RETURN(const Shape weight_shape, Shape::Create(dims));
  const Initializer uniform =
      FanInUniform(weight_shape.elements() / conv.filters());
  ASSIGN_OR_RETURN(
      const ValueId weight,
      Persistent(absl::StrCat(name, ".weight"), weight_shape,
                 MemoryClass::kWeight,
                 kaiming_ ? KaimingNormal(conv.filters() * kernel.h * kernel.w)
                          : uniform));
  ValueIds inputs{x, weight};
  if (!conv.has_bias() || conv.bias()) {
    attributes.epilogue.bias = true;
    ASSIGN_OR_RETURN(const ValueId bias,
                     Persistent(absl::StrCat(name, ".bias"), {conv.filters()},
                                MemoryClass::kWeight, uniform));
    inputs.push_back(bias);
  }
  return builder_->EmitOne(Op::kConv2d, inputs, attributes);
}

template <typename PoolProto>
absl::StatusOr<ValueId> LayerKinds::Pool(Op op, const PoolProto& pool,
                                         ValueId x) {
  RETURN_IF_ERROR(NeedImage(x));
  Pool2dAttributes attributes;
  ASSIGN_OR_RETURN(attributes.kernel, ParseExtent("kernel", pool.kernel(), {}));
  ASSIGN_OR_RETURN(attributes.stride,
                   ParseExtent("stride", pool.stride(), attributes.kernel));
  ASSIGN_OR_RETURN(const Extent padding,
                   ParseExtent("padding", pool.padding(), Extent{0, 0}));
  attributes.padding = Padding(padding);
  if constexpr (std::is_same_v<PoolProto, v1::AvgPool>) {
    attributes.exclude_padding = pool.exclude_padding();
  } else {
    // The gradient reads the argmax.
    attributes.with_argmax = options_.training;
  }
  return builder_->EmitOne(op, {x}, attributes);
}

absl::StatusOr<ValueId> LayerKinds::Flatten(ValueId x) {
  const Shape& shape = builder_->shape(x);
  if (shape.rank() == 2) return x;
  const Shape flat{shape[0], shape.elements() / shape[0]};
  return builder_->EmitOne(Op::kReshape, {x}, ShapeAttributes{flat});
}

absl::StatusOr<ValueIds> LayerKinds::NormWeights(Name name, int64_t size) {
  ASSIGN_OR_RETURN(const ValueId gamma,
                   Persistent(absl::StrCat(name, ".weight"), {size},
                              MemoryClass::kWeight, {.value = 1}));
  ASSIGN_OR_RETURN(const ValueId beta,
                   Persistent(absl::StrCat(name, ".bias"), {size},
                              MemoryClass::kWeight, {.value = 0}));
  return ValueIds{gamma, beta};
}

absl::StatusOr<ValueId> LayerKinds::BatchNorm(const v1::BatchNorm& norm,
                                              Name name, ValueId x) {
  const Shape shape = builder_->shape(x);
  const NormAttributes attributes{.epsilon = norm.has_epsilon() ? norm.epsilon()
                                                                : 1e-5};
  RETURN_IF_ERROR(CheckEpsilon(attributes.epsilon));
  ASSIGN_OR_RETURN(const ValueIds weights, NormWeights(name, shape[1]));
  ASSIGN_OR_RETURN(const ValueId running_mean,
                   Persistent(absl::StrCat(name, ".running_mean"), {shape[1]},
                              MemoryClass::kState, {.value = 0}));
  ASSIGN_OR_RETURN(const ValueId running_variance,
                   Persistent(absl::StrCat(name, ".running_var"), {shape[1]},
                              MemoryClass::kState, {.value = 1}));
  if (!options_.training) {
    return builder_->EmitOne(
        Op::kBatchNormInference,
        {x, weights[0], weights[1], running_mean, running_variance},
        attributes);
  }
  ASSIGN_OR_RETURN(const ValueIds normed,
                   builder_->Emit(Op::kBatchNormTraining,
                                  {x, weights[0], weights[1]}, attributes));
  const BatchNormUpdateAttributes update{
      .momentum = norm.has_momentum() ? norm.momentum() : 0.1,
      .count = shape.elements() / shape[1]};
  ASSIGN_OR_RETURN(
      const ValueIds running,
      builder_->Emit(Op::kBatchNormUpdate,
                     {running_mean, running_variance, normed[1], normed[2]},
                     update));
  RETURN_IF_ERROR(builder_->Update(running[0], running_mean));
  RETURN_IF_ERROR(builder_->Update(running[1], running_variance));
  return normed[0];
}

absl::StatusOr<ValueId> LayerKinds::LayerNorm(const v1::LayerNorm& norm,
                                              Name name, ValueId x) {
  const Shape& shape = builder_->shape(x);
  const NormAttributes attributes{
      .epsilon = norm.has_epsilon() ? norm.epsilon() : 1e-5,
      .with_statistics = options_.training};
  RETURN_IF_ERROR(CheckEpsilon(attributes.epsilon));
  ASSIGN_OR_RETURN(const ValueIds weights,
                   NormWeights(name, shape[shape.rank() - 1]));
  return builder_->EmitOne(Op::kLayerNorm, {x, weights[0], weights[1]},
                           attributes);
}

absl::StatusOr<ValueId> LayerKinds::Dropout(const v1::Dropout& dropout,
                                            Name name, ValueId x) {
  const double p = dropout.probability();
  if (!(p >= 0 && p < 1)) {
    return Refuse("probability ", p, " must be at least 0 and below 1");
  }
  // A probability of 0 drops nothing, so the program needs no seed.
  if (!options_.training || p == 0) return x;
  const TensorType scalar{DType::kInt64, {}};
  ASSIGN_OR_RETURN(const ValueId seed, builder_->Input("seed", scalar));
  ASSIGN_OR_RETURN(const ValueId step, builder_->Input("step", scalar));
  const DropoutAttributes attributes{
      // The name determines the stream, so that layers drop independently.
      .probability = p,
      .stream = PhiloxStreamId(PhiloxStream::kDropout,
                               PhiloxNameIndex({name.data(), name.size()}))};
  return builder_->EmitOne(Op::kDropout, {x, seed, step}, attributes);
}

absl::StatusOr<ValueId> LayerKinds::Add(const v1::Add& add, ValueId x) {
  const ValueId other = Output(add.from());
  const Shape& from = builder_->shape(other);
  if (from != builder_->shape(x)) {
    return Refuse("cannot add: its input is ",
                  ExampleShapeText(builder_->shape(x)), " but '", add.from(),
                  "' gives ", ExampleShapeText(from));
  }
  return builder_->EmitOne(Op::kAdd, {x, other});
}

}  // namespace gpupool::engine
