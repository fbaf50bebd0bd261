#include "engine/graph/ops.h"

#include <array>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine {
namespace {

namespace rules = type_rules;

using TypeRule = rules::Result (*)(Op, const Attributes&, rules::Inputs);

// Position of T in Attributes.
template <typename T>
size_t IndexOf() {
  return Attributes(T{}).index();
}

struct Row {
  OpInfo info;
  size_t attributes;  // index of the alternative that the op carries
  TypeRule rule;
};

constexpr LayoutRule kRowMajorOnly = LayoutRule::kRowMajorOnly;
constexpr LayoutRule kSame = LayoutRule::kSame;
constexpr LayoutRule kConvert = LayoutRule::kConvert;
constexpr bool kDifferentiable = true;
constexpr bool kNot = false;
constexpr bool kPure = true;

const std::array<Row, kOpCount>& Table() {
  static const size_t none = IndexOf<std::monostate>();
  static const size_t matmul = IndexOf<MatMulAttributes>();
  static const size_t conv = IndexOf<Conv2dAttributes>();
  static const size_t conv_grad = IndexOf<Conv2dGradAttributes>();
  static const size_t pool = IndexOf<Pool2dAttributes>();
  static const size_t pool_grad = IndexOf<Pool2dGradAttributes>();
  static const size_t norm = IndexOf<NormAttributes>();
  static const size_t update = IndexOf<BatchNormUpdateAttributes>();
  static const size_t gelu = IndexOf<GeluAttributes>();
  static const size_t dropout = IndexOf<DropoutAttributes>();
  static const size_t loss = IndexOf<LossAttributes>();
  static const size_t clip = IndexOf<ClipAttributes>();
  static const size_t sgd = IndexOf<SgdAttributes>();
  static const size_t adam = IndexOf<AdamAttributes>();
  static const size_t shape = IndexOf<ShapeAttributes>();
  static const size_t layout = IndexOf<LayoutAttributes>();
  static const size_t unary = IndexOf<UnaryAttributes>();
  static const size_t binary = IndexOf<BinaryAttributes>();
  static const size_t cast = IndexOf<CastAttributes>();
  static const size_t fused = IndexOf<FusedAttributes>();
  static const size_t reduce = IndexOf<ReduceAttributes>();
  static const size_t arg_reduce = IndexOf<ArgReduceAttributes>();
  static const size_t cum_sum = IndexOf<CumSumAttributes>();
  static const size_t transpose = IndexOf<TransposeAttributes>();
  static const size_t slice = IndexOf<SliceAttributes>();
  static const size_t slice_grad = IndexOf<SliceGradAttributes>();
  static const size_t pad = IndexOf<PadAttributes>();
  static const size_t axis = IndexOf<AxisAttributes>();
  static const size_t gather_grad = IndexOf<GatherGradAttributes>();
  static const size_t gather_nd = IndexOf<GatherNdAttributes>();
  static const size_t scatter = IndexOf<ScatterAttributes>();
  static const size_t top_k = IndexOf<TopKAttributes>();
  static const size_t random = IndexOf<RandomAttributes>();
  static const size_t resize = IndexOf<ResizeAttributes>();
  static const size_t resize_grad = IndexOf<ResizeGradAttributes>();
  static const size_t lrn = IndexOf<LrnAttributes>();
  static const size_t batch_matmul = IndexOf<BatchMatMulAttributes>();
  static const size_t attention = IndexOf<AttentionAttributes>();
  static const size_t rmsprop = IndexOf<RmspropAttributes>();
  static const size_t adagrad = IndexOf<AdagradAttributes>();
  static const size_t lion = IndexOf<LionAttributes>();
  static const size_t ema = IndexOf<EmaAttributes>();
  // clang-format off
  static const std::array<Row, kOpCount> table = {{
    // op, name, inputs from-to, outputs from-to, layout, in-place inputs,
    // differentiable, pure; attributes; type rule
    {{Op::kReshape, "reshape", 1, 1, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, shape, rules::Reshape},
    {{Op::kLayoutConvert, "layout_convert", 1, 1, 1, 1, kConvert, 0, kNot, kPure}, layout, rules::LayoutConvert},
    {{Op::kUnary, "unary", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, unary, rules::UnaryOp},
    {{Op::kBinary, "binary", 2, 2, 1, 1, kSame, 3, kDifferentiable, kPure}, binary, rules::BinaryOp},
    {{Op::kWhere, "where", 3, 3, 1, 1, kSame, 6, kDifferentiable, kPure}, none, rules::Where},
    {{Op::kCast, "cast", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, cast, rules::Cast},
    {{Op::kFused, "fused", 1, -1, 1, -1, kSame, ~0u, kNot, kPure}, fused, rules::Fused},
    {{Op::kAdd, "add", 2, 2, 1, 1, kSame, 3, kDifferentiable, kPure}, none, rules::Binary},
    {{Op::kRelu, "relu", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, none, rules::Unary},
    {{Op::kGelu, "gelu", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, gelu, rules::Unary},
    {{Op::kSigmoid, "sigmoid", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, none, rules::Unary},
    {{Op::kTanh, "tanh", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, none, rules::Unary},
    {{Op::kScaleShift, "scale_shift", 3, 3, 1, 1, kRowMajorOnly, 1, kNot, kPure}, none, rules::ScaleShift},
    {{Op::kDropout, "dropout", 3, 3, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, dropout, rules::Dropout},
    {{Op::kMatMul, "matmul", 2, 4, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, matmul, rules::MatMul},
    {{Op::kConv2d, "conv2d", 2, 4, 1, 1, kSame, 0, kDifferentiable, kPure}, conv, rules::Conv2d},
    {{Op::kBatchMatMul, "batch_matmul", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, batch_matmul, rules::BatchMatMul},
    {{Op::kAttention, "attention", 3, 4, 1, 2, kRowMajorOnly, 0, kDifferentiable, kPure}, attention, rules::Attention},
    {{Op::kReduce, "reduce", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, reduce, rules::Reduce},
    {{Op::kArgReduce, "arg_reduce", 1, 1, 1, 1, kRowMajorOnly, 0, kNot, kPure}, arg_reduce, rules::ArgReduce},
    {{Op::kCumSum, "cum_sum", 1, 1, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, cum_sum, rules::CumSum},
    {{Op::kBroadcast, "broadcast", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, shape, rules::Broadcast},
    {{Op::kTranspose, "transpose", 1, 1, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, transpose, rules::Transpose},
    {{Op::kSlice, "slice", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, slice, rules::Slice},
    {{Op::kPad, "pad", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, pad, rules::Pad},
    {{Op::kConcat, "concat", 1, -1, 1, 1, kSame, 0, kDifferentiable, kPure}, axis, rules::Concat},
    {{Op::kGather, "gather", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, axis, rules::Gather},
    {{Op::kGatherElements, "gather_elements", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, axis, rules::GatherElements},
    {{Op::kGatherNd, "gather_nd", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, gather_nd, rules::GatherNd},
    {{Op::kScatterElements, "scatter_elements", 3, 3, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, scatter, rules::ScatterElements},
    {{Op::kScatterNd, "scatter_nd", 3, 3, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, scatter, rules::ScatterNd},
    {{Op::kTopK, "top_k", 1, 1, 2, 2, kRowMajorOnly, 0, kDifferentiable, kPure}, top_k, rules::TopK},
    {{Op::kRandom, "random", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, random, rules::Random},
    {{Op::kResize, "resize", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, resize, rules::Resize},
    {{Op::kLrn, "lrn", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, lrn, rules::Lrn},
    {{Op::kMaxPool, "max_pool", 1, 1, 1, 2, kSame, 0, kDifferentiable, kPure}, pool, rules::MaxPool},
    {{Op::kAvgPool, "avg_pool", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, pool, rules::AvgPool},
    {{Op::kGlobalAvgPool, "global_avg_pool", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, none, rules::GlobalAvgPool},
    {{Op::kBatchNormTraining, "batch_norm_training", 3, 3, 3, 3, kSame, 0, kDifferentiable, kPure}, norm, rules::BatchNormTraining},
    {{Op::kBatchNormUpdate, "batch_norm_update", 4, 4, 2, 2, kRowMajorOnly, 0, kNot, kNot}, update, rules::BatchNormUpdate},
    {{Op::kBatchNormInference, "batch_norm_inference", 5, 5, 1, 1, kSame, 1, kNot, kPure}, norm, rules::BatchNormInference},
    {{Op::kLayerNorm, "layer_norm", 3, 3, 1, 3, kRowMajorOnly, 0, kDifferentiable, kPure}, norm, rules::LayerNorm},
    {{Op::kSoftmax, "softmax", 1, 1, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, none, rules::Unary},
    {{Op::kLogSoftmax, "log_softmax", 1, 1, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, none, rules::Unary},
    {{Op::kCrossEntropy, "cross_entropy", 2, 3, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, loss, rules::CrossEntropy},
    {{Op::kMeanSquaredError, "mean_squared_error", 2, 3, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, loss, rules::MeanSquaredError},
    {{Op::kCorrectCount, "correct_count", 2, 3, 1, 1, kRowMajorOnly, 0, kNot, kPure}, none, rules::CorrectCount},
    {{Op::kReluGrad, "relu_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, none, rules::Binary},
    {{Op::kGeluGrad, "gelu_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, gelu, rules::Binary},
    {{Op::kSigmoidGrad, "sigmoid_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, none, rules::Binary},
    {{Op::kTanhGrad, "tanh_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, none, rules::Binary},
    {{Op::kUnaryGrad, "unary_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, unary, rules::UnaryGrad},
    {{Op::kSliceGrad, "slice_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, slice_grad, rules::SliceGrad},
    {{Op::kPadGrad, "pad_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, pad, rules::PadGrad},
    {{Op::kGatherGrad, "gather_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, gather_grad, rules::GatherGrad},
    {{Op::kResizeGrad, "resize_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, resize_grad, rules::ResizeGrad},
    {{Op::kLrnGrad, "lrn_grad", 2, 2, 1, 1, kSame, 0, kNot, kPure}, lrn, rules::LrnGrad},
    {{Op::kLogSoftmaxGrad, "log_softmax_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, none, rules::Binary},
    {{Op::kAttentionGrad, "attention_grad", 6, 7, 3, 3, kRowMajorOnly, 0, kNot, kPure}, attention, rules::AttentionGrad},
    {{Op::kColumnSum, "column_sum", 1, 1, 1, 1, kRowMajorOnly, 0, kNot, kPure}, none, rules::ColumnSum},
    {{Op::kConv2dInputGrad, "conv2d_input_grad", 2, 2, 1, 1, kSame, 0, kDifferentiable, kPure}, conv_grad, rules::Conv2dInputGrad},
    {{Op::kConv2dWeightGrad, "conv2d_weight_grad", 2, 2, 1, 2, kSame, 0, kNot, kPure}, conv_grad, rules::Conv2dWeightGrad},
    {{Op::kMaxPoolGrad, "max_pool_grad", 2, 2, 1, 1, kSame, 0, kNot, kPure}, pool_grad, rules::PoolGrad},
    {{Op::kAvgPoolGrad, "avg_pool_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, pool_grad, rules::PoolGrad},
    {{Op::kGlobalAvgPoolGrad, "global_avg_pool_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, shape, rules::GlobalAvgPoolGrad},
    {{Op::kBatchNormTrainingGrad, "batch_norm_training_grad", 5, 5, 3, 3, kSame, 0, kNot, kPure}, norm, rules::BatchNormTrainingGrad},
    {{Op::kLayerNormGrad, "layer_norm_grad", 5, 5, 3, 3, kRowMajorOnly, 0, kNot, kPure}, norm, rules::LayerNormGrad},
    {{Op::kSoftmaxGrad, "softmax_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, none, rules::Binary},
    {{Op::kCrossEntropyGrad, "cross_entropy_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, loss, rules::CrossEntropyGrad},
    {{Op::kMeanSquaredErrorGrad, "mean_squared_error_grad", 2, 2, 1, 1, kRowMajorOnly, 3, kNot, kPure}, loss, rules::Binary},
    {{Op::kClipCoefficient, "clip_coefficient", 1, -1, 1, 1, kRowMajorOnly, 0, kNot, kPure}, clip, rules::ClipCoefficient},
    {{Op::kSgdStep, "sgd_step", 4, 6, 1, 2, kRowMajorOnly, 0, kNot, kNot}, sgd, rules::SgdStep},
    {{Op::kAdamStep, "adam_step", 6, 7, 3, 3, kRowMajorOnly, 0, kNot, kNot}, adam, rules::AdamStep},
    {{Op::kRmspropStep, "rmsprop_step", 5, 8, 2, 4, kRowMajorOnly, 0, kNot, kNot}, rmsprop, rules::RmspropStep},
    {{Op::kAdagradStep, "adagrad_step", 5, 6, 2, 2, kRowMajorOnly, 0, kNot, kNot}, adagrad, rules::AdagradStep},
    {{Op::kLionStep, "lion_step", 5, 6, 2, 2, kRowMajorOnly, 0, kNot, kNot}, lion, rules::LionStep},
    {{Op::kEmaUpdate, "ema_update", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kNot}, ema, rules::EmaUpdate},
    {{Op::kFoldBatchNorm, "fold_batch_norm", 5, 6, 2, 2, kRowMajorOnly, 0, kNot, kPure}, norm, rules::FoldBatchNorm},
  }};
  // clang-format on
  return table;
}

// Ops whose rules and kernels know inputs without elements; imported graphs
// have such constants.
bool TakesEmpty(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kFused:
    case Op::kAdd:
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kDropout:
    case Op::kBatchMatMul:
    case Op::kAttention:
    case Op::kReduce:
    case Op::kArgReduce:
    case Op::kCumSum:
    case Op::kBroadcast:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kPad:
    case Op::kConcat:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kScatterElements:
    case Op::kScatterNd:
    case Op::kTopK:
    case Op::kResize:
    case Op::kLrn:
    case Op::kSoftmax:
    case Op::kLogSoftmax:
      return true;
    default:
      return false;
  }
}

const Row& RowOf(Op op) {
  const Row& row = Table()[static_cast<size_t>(op)];
  GPUPOOL_CHECK(row.info.op == op);
  return row;
}

}  // namespace

const OpInfo& Info(Op op) { return RowOf(op).info; }

bool IsWeightInput(Op op, size_t input) {
  return (op == Op::kConv2d || op == Op::kConv2dInputGrad) && input == 1;
}

bool IsWeightOutput(Op op, size_t output) {
  return op == Op::kConv2dWeightGrad && output == 0;
}

absl::StatusOr<TensorTypes> InferTypes(Op op, const Attributes& attributes,
                                       absl::Span<const TensorType> inputs) {
  const Row& row = RowOf(op);
  const int count = static_cast<int>(inputs.size());
  if (count < row.info.min_inputs ||
      (row.info.max_inputs >= 0 && count > row.info.max_inputs)) {
    return rules::Refuse(op, "has ", count, " inputs");
  }
  if (attributes.index() != row.attributes) {
    return rules::Refuse(op, "carries the attributes of another op");
  }
  for (const TensorType& input : inputs) {
    if (input.shape.elements() == 0 && !TakesEmpty(op)) {
      return rules::Refuse(op, "does not take ", rules::Text(input),
                           ", which has no elements");
    }
  }
  return row.rule(op, attributes, inputs);
}

}  // namespace gpupool::engine
