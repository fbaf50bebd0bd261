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

// Returns the position of T in the alternatives of Attributes.
template <typename T, typename... Alternatives>
consteval size_t PositionIn(const std::variant<Alternatives...>*) {
  constexpr bool kSameType[] = {std::is_same_v<T, Alternatives>...};
  size_t position = 0;
  while (!kSameType[position]) ++position;
  return position;
}

template <typename T>
constexpr size_t kIndexOf =
    PositionIn<T>(static_cast<const Attributes*>(nullptr));

struct Row {
  OpInfo info;
  size_t attributes;  // index of the alternative that the op carries
  TypeRule rule;
};

constexpr LayoutRule kRowMajorOnly = LayoutRule::kRowMajorOnly;
constexpr LayoutRule kSame = LayoutRule::kSame;
constexpr LayoutRule kConvert = LayoutRule::kConvert;
constexpr bool kDifferentiable = true;
// In the table: not differentiable, or not pure.
constexpr bool kNot = false;
constexpr bool kPure = true;

// Short names for the table's columns.
constexpr size_t kNone = kIndexOf<std::monostate>;
constexpr size_t kMatmul = kIndexOf<MatMulAttributes>;
constexpr size_t kConv = kIndexOf<Conv2dAttributes>;
constexpr size_t kConvGrad = kIndexOf<Conv2dGradAttributes>;
constexpr size_t kPool = kIndexOf<Pool2dAttributes>;
constexpr size_t kPoolGrad = kIndexOf<Pool2dGradAttributes>;
constexpr size_t kNorm = kIndexOf<NormAttributes>;
constexpr size_t kUpdate = kIndexOf<BatchNormUpdateAttributes>;
constexpr size_t kGelu = kIndexOf<GeluAttributes>;
constexpr size_t kDropout = kIndexOf<DropoutAttributes>;
constexpr size_t kLoss = kIndexOf<LossAttributes>;
constexpr size_t kAllReduce = kIndexOf<AllReduceAttributes>;
constexpr size_t kSgd = kIndexOf<SgdAttributes>;
constexpr size_t kAdam = kIndexOf<AdamAttributes>;
constexpr size_t kShape = kIndexOf<ShapeAttributes>;
constexpr size_t kLayout = kIndexOf<LayoutAttributes>;
constexpr size_t kUnary = kIndexOf<UnaryAttributes>;
constexpr size_t kBinary = kIndexOf<BinaryAttributes>;
constexpr size_t kCast = kIndexOf<CastAttributes>;
constexpr size_t kFused = kIndexOf<FusedAttributes>;
constexpr size_t kReduce = kIndexOf<ReduceAttributes>;
constexpr size_t kArgReduce = kIndexOf<ArgReduceAttributes>;
constexpr size_t kCumSum = kIndexOf<CumSumAttributes>;
constexpr size_t kTranspose = kIndexOf<TransposeAttributes>;
constexpr size_t kSlice = kIndexOf<SliceAttributes>;
constexpr size_t kSliceGrad = kIndexOf<SliceGradAttributes>;
constexpr size_t kPad = kIndexOf<PadAttributes>;
constexpr size_t kAxis = kIndexOf<AxisAttributes>;
constexpr size_t kGatherGrad = kIndexOf<GatherGradAttributes>;
constexpr size_t kGatherNd = kIndexOf<GatherNdAttributes>;
constexpr size_t kScatter = kIndexOf<ScatterAttributes>;
constexpr size_t kTopK = kIndexOf<TopKAttributes>;
constexpr size_t kRandom = kIndexOf<RandomAttributes>;
constexpr size_t kResize = kIndexOf<ResizeAttributes>;
constexpr size_t kResizeGrad = kIndexOf<ResizeGradAttributes>;
constexpr size_t kLrn = kIndexOf<LrnAttributes>;
constexpr size_t kBatchMatmul = kIndexOf<BatchMatMulAttributes>;
constexpr size_t kAttention = kIndexOf<AttentionAttributes>;
constexpr size_t kRmsprop = kIndexOf<RmspropAttributes>;
constexpr size_t kAdagrad = kIndexOf<AdagradAttributes>;
constexpr size_t kLion = kIndexOf<LionAttributes>;
constexpr size_t kEma = kIndexOf<EmaAttributes>;

// clang-format off
constexpr std::array<Row, kOpCount> kTable = {{
  // op, name, inputs from-to, outputs from-to, layout, in-place inputs,
  // differentiable, pure; attributes; type rule
  {{Op::kReshape, "reshape", 1, 1, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kShape, rules::Reshape},
  {{Op::kLayoutConvert, "layout_convert", 1, 1, 1, 1, kConvert, 0, kNot, kPure}, kLayout, rules::LayoutConvert},
  {{Op::kUnary, "unary", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, kUnary, rules::UnaryOp},
  {{Op::kBinary, "binary", 2, 2, 1, 1, kSame, 3, kDifferentiable, kPure}, kBinary, rules::BinaryOp},
  {{Op::kWhere, "where", 3, 3, 1, 1, kSame, 6, kDifferentiable, kPure}, kNone, rules::Where},
  {{Op::kCast, "cast", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kCast, rules::Cast},
  {{Op::kFused, "fused", 1, -1, 1, -1, kSame, ~0u, kNot, kPure}, kFused, rules::Fused},
  {{Op::kAdd, "add", 2, 2, 1, 1, kSame, 3, kDifferentiable, kPure}, kNone, rules::Binary},
  {{Op::kRelu, "relu", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, kNone, rules::Unary},
  {{Op::kGelu, "gelu", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, kGelu, rules::Unary},
  {{Op::kSigmoid, "sigmoid", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, kNone, rules::Unary},
  {{Op::kTanh, "tanh", 1, 1, 1, 1, kSame, 1, kDifferentiable, kPure}, kNone, rules::Unary},
  {{Op::kScaleShift, "scale_shift", 3, 3, 1, 1, kRowMajorOnly, 1, kNot, kPure}, kNone, rules::ScaleShift},
  {{Op::kDropout, "dropout", 3, 3, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, kDropout, rules::Dropout},
  {{Op::kMatMul, "matmul", 2, 4, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kMatmul, rules::MatMul},
  {{Op::kConv2d, "conv2d", 2, 4, 1, 1, kSame, 0, kDifferentiable, kPure}, kConv, rules::Conv2d},
  {{Op::kBatchMatMul, "batch_matmul", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kBatchMatmul, rules::BatchMatMul},
  {{Op::kAttention, "attention", 3, 4, 1, 2, kRowMajorOnly, 0, kDifferentiable, kPure}, kAttention, rules::Attention},
  {{Op::kReduce, "reduce", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kReduce, rules::Reduce},
  {{Op::kArgReduce, "arg_reduce", 1, 1, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kArgReduce, rules::ArgReduce},
  {{Op::kCumSum, "cum_sum", 1, 1, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kCumSum, rules::CumSum},
  {{Op::kBroadcast, "broadcast", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kShape, rules::Broadcast},
  {{Op::kTranspose, "transpose", 1, 1, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kTranspose, rules::Transpose},
  {{Op::kSlice, "slice", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kSlice, rules::Slice},
  {{Op::kPad, "pad", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kPad, rules::Pad},
  {{Op::kConcat, "concat", 1, -1, 1, 1, kSame, 0, kDifferentiable, kPure}, kAxis, rules::Concat},
  {{Op::kGather, "gather", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kAxis, rules::Gather},
  {{Op::kGatherElements, "gather_elements", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kAxis, rules::GatherElements},
  {{Op::kGatherNd, "gather_nd", 2, 2, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kGatherNd, rules::GatherNd},
  {{Op::kScatterElements, "scatter_elements", 3, 3, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, kScatter, rules::ScatterElements},
  {{Op::kScatterNd, "scatter_nd", 3, 3, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, kScatter, rules::ScatterNd},
  {{Op::kTopK, "top_k", 1, 1, 2, 2, kRowMajorOnly, 0, kDifferentiable, kPure}, kTopK, rules::TopK},
  {{Op::kRandom, "random", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kRandom, rules::Random},
  {{Op::kResize, "resize", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kResize, rules::Resize},
  {{Op::kLrn, "lrn", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kLrn, rules::Lrn},
  {{Op::kMaxPool, "max_pool", 1, 1, 1, 2, kSame, 0, kDifferentiable, kPure}, kPool, rules::MaxPool},
  {{Op::kAvgPool, "avg_pool", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kPool, rules::AvgPool},
  {{Op::kGlobalAvgPool, "global_avg_pool", 1, 1, 1, 1, kSame, 0, kDifferentiable, kPure}, kNone, rules::GlobalAvgPool},
  {{Op::kBatchNormTraining, "batch_norm_training", 3, 3, 3, 3, kSame, 0, kDifferentiable, kPure}, kNorm, rules::BatchNormTraining},
  {{Op::kBatchNormUpdate, "batch_norm_update", 4, 4, 2, 2, kRowMajorOnly, 0, kNot, kNot}, kUpdate, rules::BatchNormUpdate},
  {{Op::kBatchNormInference, "batch_norm_inference", 5, 5, 1, 1, kSame, 1, kNot, kPure}, kNorm, rules::BatchNormInference},
  {{Op::kLayerNorm, "layer_norm", 3, 3, 1, 3, kRowMajorOnly, 0, kDifferentiable, kPure}, kNorm, rules::LayerNorm},
  {{Op::kSoftmax, "softmax", 1, 1, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, kNone, rules::Unary},
  {{Op::kLogSoftmax, "log_softmax", 1, 1, 1, 1, kRowMajorOnly, 1, kDifferentiable, kPure}, kNone, rules::Unary},
  {{Op::kCrossEntropy, "cross_entropy", 2, 3, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kLoss, rules::CrossEntropy},
  {{Op::kMeanSquaredError, "mean_squared_error", 2, 3, 1, 1, kRowMajorOnly, 0, kDifferentiable, kPure}, kLoss, rules::MeanSquaredError},
  {{Op::kCorrectCount, "correct_count", 2, 3, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kNone, rules::CorrectCount},
  {{Op::kReluGrad, "relu_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, kNone, rules::Binary},
  {{Op::kGeluGrad, "gelu_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, kGelu, rules::Binary},
  {{Op::kSigmoidGrad, "sigmoid_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, kNone, rules::Binary},
  {{Op::kTanhGrad, "tanh_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, kNone, rules::Binary},
  {{Op::kUnaryGrad, "unary_grad", 2, 2, 1, 1, kSame, 3, kNot, kPure}, kUnary, rules::UnaryGrad},
  {{Op::kSliceGrad, "slice_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, kSliceGrad, rules::SliceGrad},
  {{Op::kPadGrad, "pad_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, kPad, rules::PadGrad},
  {{Op::kGatherGrad, "gather_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kGatherGrad, rules::GatherGrad},
  {{Op::kResizeGrad, "resize_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, kResizeGrad, rules::ResizeGrad},
  {{Op::kLrnGrad, "lrn_grad", 2, 2, 1, 1, kSame, 0, kNot, kPure}, kLrn, rules::LrnGrad},
  {{Op::kLogSoftmaxGrad, "log_softmax_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kNone, rules::Binary},
  {{Op::kAttentionGrad, "attention_grad", 6, 7, 3, 3, kRowMajorOnly, 0, kNot, kPure}, kAttention, rules::AttentionGrad},
  {{Op::kColumnSum, "column_sum", 1, 1, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kNone, rules::ColumnSum},
  {{Op::kConv2dInputGrad, "conv2d_input_grad", 2, 2, 1, 1, kSame, 0, kDifferentiable, kPure}, kConvGrad, rules::Conv2dInputGrad},
  {{Op::kConv2dWeightGrad, "conv2d_weight_grad", 2, 2, 1, 2, kSame, 0, kNot, kPure}, kConvGrad, rules::Conv2dWeightGrad},
  {{Op::kMaxPoolGrad, "max_pool_grad", 2, 2, 1, 1, kSame, 0, kNot, kPure}, kPoolGrad, rules::PoolGrad},
  {{Op::kAvgPoolGrad, "avg_pool_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, kPoolGrad, rules::PoolGrad},
  {{Op::kGlobalAvgPoolGrad, "global_avg_pool_grad", 1, 1, 1, 1, kSame, 0, kNot, kPure}, kShape, rules::GlobalAvgPoolGrad},
  {{Op::kBatchNormTrainingGrad, "batch_norm_training_grad", 5, 5, 3, 3, kSame, 0, kNot, kPure}, kNorm, rules::BatchNormTrainingGrad},
  {{Op::kLayerNormGrad, "layer_norm_grad", 5, 5, 3, 3, kRowMajorOnly, 0, kNot, kPure}, kNorm, rules::LayerNormGrad},
  {{Op::kSoftmaxGrad, "softmax_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kNone, rules::Binary},
  {{Op::kCrossEntropyGrad, "cross_entropy_grad", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kLoss, rules::CrossEntropyGrad},
  {{Op::kMeanSquaredErrorGrad, "mean_squared_error_grad", 2, 2, 1, 1, kRowMajorOnly, 3, kNot, kPure}, kLoss, rules::Binary},
  {{Op::kGlobalNorm, "global_norm", 1, -1, 1, 1, kRowMajorOnly, 0, kNot, kPure}, kNone, rules::GlobalNorm},
  {{Op::kSgdStep, "sgd_step", 4, 6, 1, 2, kRowMajorOnly, 0, kNot, kNot}, kSgd, rules::SgdStep},
  {{Op::kAdamStep, "adam_step", 6, 7, 3, 3, kRowMajorOnly, 0, kNot, kNot}, kAdam, rules::AdamStep},
  {{Op::kRmspropStep, "rmsprop_step", 5, 8, 2, 4, kRowMajorOnly, 0, kNot, kNot}, kRmsprop, rules::RmspropStep},
  {{Op::kAdagradStep, "adagrad_step", 5, 6, 2, 2, kRowMajorOnly, 0, kNot, kNot}, kAdagrad, rules::AdagradStep},
  {{Op::kLionStep, "lion_step", 5, 6, 2, 2, kRowMajorOnly, 0, kNot, kNot}, kLion, rules::LionStep},
  {{Op::kEmaUpdate, "ema_update", 2, 2, 1, 1, kRowMajorOnly, 0, kNot, kNot}, kEma, rules::EmaUpdate},
  {{Op::kAllReduceStart, "all_reduce_start", 1, -1, 1, 1, kRowMajorOnly, 0, kNot, kNot}, kAllReduce, rules::AllReduceStart},
  {{Op::kAllReduceWait, "all_reduce_wait", 1, -1, 1, -1, kRowMajorOnly, 0, kNot, kNot}, kAllReduce, rules::AllReduceWait},
  {{Op::kFoldBatchNorm, "fold_batch_norm", 5, 6, 2, 2, kRowMajorOnly, 0, kNot, kPure}, kNorm, rules::FoldBatchNorm},
}};
// clang-format on

// Returns whether the op's rule and kernels accept inputs without elements,
// which imported graphs have as constants.
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

// Rows are looked up by number, so their order must be that of the enum.
const Row& RowOf(Op op) {
  const Row& row = kTable[static_cast<size_t>(op)];
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
