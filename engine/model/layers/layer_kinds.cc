#include "engine/model/layers/layer_kinds.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/model/layers/layer_checks.h"
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

absl::Status CheckEpsilon(double epsilon) {
  if (epsilon > 0 && std::isfinite(epsilon)) return absl::OkStatus();
  return Refuse("epsilon ", epsilon, " must be above 0");
}

}  // namespace

absl::Status LayerKinds::NeedImage(ValueId x) const {
  return CheckImage(builder_->shape(x));
}

absl::Status LayerKinds::NeedFractions(ValueId x) const {
  if (builder_->value(x).dtype == DType::kFloat32) return absl::OkStatus();
  return Refuse(
      "reads the model's input, which has whole numbers since an embedding "
      "reads it; let it read the embedding");
}

absl::StatusOr<ValueId> LayerKinds::Apply(const v1::Layer& layer,
                                          absl::string_view name, ValueId x) {
  RETURN_IF_ERROR(CheckInitial(layer));
  if (!layer.has_embedding()) RETURN_IF_ERROR(NeedFractions(x));
  switch (layer.kind_case()) {
    case v1::Layer::kDense:
      return Dense(layer, name, x);
    case v1::Layer::kConv2D:
      return Conv2d(layer, name, x);
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
    case v1::Layer::kEmbedding:
      return sequences_.Embedding(layer, name, x);
    case v1::Layer::kImageTokens:
      return sequences_.ImageTokens(x);
    case v1::Layer::kClassToken:
      return sequences_.ClassToken(layer, name, x);
    case v1::Layer::kPositions:
      return sequences_.Positions(layer, name, x);
    case v1::Layer::kAttention:
      return sequences_.Attention(layer.attention(), x);
    case v1::Layer::kPickToken:
      return sequences_.PickToken(layer.pick_token(), x);
    case v1::Layer::kMeanTokens:
      return sequences_.MeanTokens(x);
    case v1::Layer::KIND_NOT_SET:
      break;
  }
  return Refuse("has no kind, or one that this server does not know");
}

absl::StatusOr<ValueId> LayerKinds::TiedWeight(const v1::Dense& dense,
                                               int64_t in) const {
  const ValueId table = sequences_.Table(dense.tied_to());
  if (!table.valid()) {
    return Refuse("tied_to is '", dense.tied_to(),
                  "', which is the name of no earlier embedding");
  }
  if (dense.units() != 0) {
    return Refuse("units and tied_to are both set; leave units out");
  }
  const Shape& shape = builder_->shape(table);
  if (shape[1] == in) return table;
  return Refuse("tied_to: the vectors of '", dense.tied_to(), "' have ",
                shape[1], " numbers, but those of its input have ", in);
}

absl::StatusOr<ValueId> LayerKinds::DenseWeight(const v1::Layer& layer,
                                                Name name, int64_t in) {
  const v1::Dense& dense = layer.dense();
  if (!dense.tied_to().empty()) return TiedWeight(dense, in);
  RETURN_IF_ERROR(CheckCount("units", dense.units()));
  const int64_t dims[] = {dense.units(), in};
  ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims));
  return weights_.Add(absl::StrCat(name, ".weight"), shape,
                      MemoryClass::kWeight,
                      InitialWeight(layer, {.in = in, .out = dense.units()}));
}

// Treats leading dimensions as rows: [batch, ..., in] is multiplied as a
// matrix.
absl::StatusOr<ValueId> LayerKinds::Dense(const v1::Layer& layer, Name name,
                                          ValueId x) {
  const v1::Dense& dense = layer.dense();
  const Shape input = builder_->shape(x);
  const int64_t in = input[input.rank() - 1];
  ASSIGN_OR_RETURN(const ValueId weight, DenseWeight(layer, name, in));
  const int64_t units = builder_->shape(weight)[0];
  MatMulAttributes matmul{.transpose_b = true};
  ValueIds inputs{x, weight};
  if (dense.has_bias() ? dense.bias() : dense.tied_to().empty()) {
    matmul.epilogue.bias = true;
    ASSIGN_OR_RETURN(
        const ValueId bias,
        weights_.Add(absl::StrCat(name, ".bias"), {units}, MemoryClass::kWeight,
                     InitialBias(layer, {.in = in})));
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
  dims.back() = units;
  ASSIGN_OR_RETURN(const Shape output, Shape::Create(dims));
  return builder_->EmitOne(Op::kReshape, {y}, ShapeAttributes{output});
}

absl::StatusOr<ValueId> LayerKinds::Conv2d(const v1::Layer& layer, Name name,
                                           ValueId x) {
  const v1::Conv2d& conv = layer.conv2d();
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
  const Fans fans{.in = weight_shape.elements() / conv.filters(),
                  .out = conv.filters() * kernel.h * kernel.w};
  ASSIGN_OR_RETURN(
      const ValueId weight,
      weights_.Add(absl::StrCat(name, ".weight"), weight_shape,
                   MemoryClass::kWeight, InitialWeight(layer, fans)));
  ValueIds inputs{x, weight};
  if (!conv.has_bias() || conv.bias()) {
    attributes.epilogue.bias = true;
    ASSIGN_OR_RETURN(
        const ValueId bias,
        weights_.Add(absl::StrCat(name, ".bias"), {conv.filters()},
                     MemoryClass::kWeight, InitialBias(layer, fans)));
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
    attributes.with_argmax = training_;
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
                   weights_.Add(absl::StrCat(name, ".weight"), {size},
                                MemoryClass::kWeight, {.value = 1}));
  ASSIGN_OR_RETURN(const ValueId beta,
                   weights_.Add(absl::StrCat(name, ".bias"), {size},
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
                   weights_.Add(absl::StrCat(name, ".running_mean"), {shape[1]},
                                MemoryClass::kState, {.value = 0}));
  ASSIGN_OR_RETURN(const ValueId running_variance,
                   weights_.Add(absl::StrCat(name, ".running_var"), {shape[1]},
                                MemoryClass::kState, {.value = 1}));
  if (!training_) {
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
      .with_statistics = training_};
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
  if (!training_ || p == 0) return x;
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
  RETURN_IF_ERROR(NeedFractions(other));
  const Shape& from = builder_->shape(other);
  if (from != builder_->shape(x)) {
    return Refuse("cannot add: its input is ",
                  ExampleShapeText(builder_->shape(x)), " but '", add.from(),
                  "' gives ", ExampleShapeText(from));
  }
  return builder_->EmitOne(Op::kAdd, {x, other});
}

}  // namespace gpupool::engine
