// Rules of normalisations.
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

// Returns the element type of the inputs other than x, given one of them:
// float32 if x has 16 bits and `side` is float32, else the type of x.
DType SideType(const TensorType& x, const TensorType& side) {
  return side.dtype == StatisticsType(x.dtype) ? side.dtype : x.dtype;
}

// Returns [C] for x [N, C, ...], with the element type of `side`.
absl::StatusOr<TensorType> PerChannel(Op op, const TensorType& x,
                                      const TensorType& side) {
  RETURN_IF_ERROR(CheckFloating(op, x));
  if (x.shape.rank() < 2) {
    return Refuse(op, "needs a batch and a channel dimension, not ",
                  x.shape.ToString());
  }
  return TensorType{SideType(x, side), {x.shape[1]}};
}

absl::Status CheckAll(Op op, Inputs inputs, const TensorType& wanted) {
  for (const TensorType& input : inputs) {
    RETURN_IF_ERROR(CheckType(op, "a per-channel input", input, wanted));
  }
  return absl::OkStatus();
}

struct LayerNormTypes {
  TensorType last;  // [last dimension]
  TensorType rows;  // [product of the other dimensions]
};

// Splits x into the normalised axis and the product of the others.
absl::StatusOr<LayerNormTypes> SplitLast(Op op, const TensorType& x,
                                         const TensorType& side) {
  RETURN_IF_ERROR(CheckFloating(op, x));
  if (x.shape.rank() < 1) return Refuse(op, "needs at least one dimension");
  const int64_t last = x.shape[x.shape.rank() - 1];
  const DType dtype = SideType(x, side);
  return LayerNormTypes{{dtype, {last}}, {dtype, {x.shape.elements() / last}}};
}

}  // namespace

Result BatchNormTraining(Op op, const Attributes&, Inputs inputs) {
  ASSIGN_OR_RETURN(const TensorType channel,
                   PerChannel(op, inputs[0], inputs[1]));
  RETURN_IF_ERROR(CheckAll(op, inputs.subspan(1), channel));
  // The unbiased variance divides by the count less one.
  if (inputs[0].shape.elements() / channel.shape[0] < 2) {
    return Refuse(op, "needs more than one number per channel to train, but ",
                  "the input is ", inputs[0].shape.ToString());
  }
  return TensorTypes{inputs[0], channel, channel};
}

Result BatchNormUpdate(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckRank(op, inputs[0], 1));
  RETURN_IF_ERROR(CheckAll(op, inputs.subspan(1), inputs[0]));
  const auto& update = std::get<BatchNormUpdateAttributes>(attributes);
  if (update.count < 2) {
    return Refuse(op, "count ", update.count, " must be at least 2");
  }
  if (!(update.momentum >= 0 && update.momentum <= 1)) {
    return Refuse(op, "momentum ", update.momentum, " must be from 0 to 1");
  }
  return TensorTypes{inputs[0], inputs[0]};
}

Result BatchNormInference(Op op, const Attributes&, Inputs inputs) {
  ASSIGN_OR_RETURN(const TensorType channel,
                   PerChannel(op, inputs[0], inputs[1]));
  RETURN_IF_ERROR(CheckAll(op, inputs.subspan(1), channel));
  return TensorTypes{inputs[0]};
}

Result BatchNormTrainingGrad(Op op, const Attributes&, Inputs inputs) {
  ASSIGN_OR_RETURN(const TensorType channel,
                   PerChannel(op, inputs[0], inputs[2]));
  RETURN_IF_ERROR(CheckType(op, "x", inputs[1], inputs[0]));
  RETURN_IF_ERROR(CheckAll(op, inputs.subspan(2), channel));
  return TensorTypes{inputs[0], channel, channel};
}

Result LayerNorm(Op op, const Attributes& attributes, Inputs inputs) {
  ASSIGN_OR_RETURN(const LayerNormTypes types,
                   SplitLast(op, inputs[0], inputs[1]));
  RETURN_IF_ERROR(CheckType(op, "gamma", inputs[1], types.last));
  RETURN_IF_ERROR(CheckType(op, "beta", inputs[2], types.last));
  TensorTypes outputs{inputs[0]};
  if (std::get<NormAttributes>(attributes).with_statistics) {
    outputs.insert(outputs.end(), 2, types.rows);
  }
  return outputs;
}

Result LayerNormGrad(Op op, const Attributes&, Inputs inputs) {
  ASSIGN_OR_RETURN(const LayerNormTypes types,
                   SplitLast(op, inputs[0], inputs[2]));
  RETURN_IF_ERROR(CheckType(op, "x", inputs[1], inputs[0]));
  RETURN_IF_ERROR(CheckType(op, "gamma", inputs[2], types.last));
  RETURN_IF_ERROR(CheckType(op, "mean", inputs[3], types.rows));
  RETURN_IF_ERROR(CheckType(op, "variance", inputs[4], types.rows));
  return TensorTypes{inputs[0], types.last, types.last};
}

Result FoldBatchNorm(Op op, const Attributes&, Inputs inputs) {
  const TensorType& w = inputs[0];
  RETURN_IF_ERROR(CheckFloating(op, w));
  if (w.shape.rank() < 1) return Refuse(op, "needs weights with a dimension");
  // Channels are the rows of the weights.
  const TensorType channel{w.dtype, {w.shape[0]}};
  RETURN_IF_ERROR(CheckAll(op, inputs.subspan(1), channel));
  return TensorTypes{w, channel};
}

}  // namespace gpupool::engine::type_rules
