// The kernels of the op table's column `reference`, written to be obviously
// right: index loops straight from the definition, in double precision.
// Internal to the reference back end.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/backends/reference/scalar_functions.h"
#include "engine/graph/graph.h"

namespace gpupool::engine::reference {

// A node's operands. Does not own their numbers. Outputs have the right size,
// hold zeros and overlap nothing.
struct Operands {
  const Node& node;
  std::vector<absl::Span<const double>> inputs;
  TensorTypes input_types;
  std::vector<absl::Span<double>> outputs;
  TensorTypes output_types;

  absl::Span<const double> in(size_t i) const { return inputs[i]; }
  absl::Span<double> out(size_t i = 0) const { return outputs[i]; }
  const Shape& in_shape(size_t i) const { return input_types[i].shape; }
  const Shape& out_shape(size_t i = 0) const { return output_types[i].shape; }
};

// Runs a node's kernel. INVALID_ARGUMENT for impossible data such as a label
// out of range.
absl::Status RunKernel(const Operands& operands);

void Reshape(const Operands& o);
void Add(const Operands& o);
void ActivationForward(const Operands& o);
void ActivationGradient(const Operands& o);
void ScaleShift(const Operands& o);
void Dropout(const Operands& o);
void MatMul(const Operands& o);
void BlockedMatMul(const Operands& o);
void ColumnSum(const Operands& o);

void Quantize(const Operands& o);
void Dequantize(const Operands& o);
void QuantizedAdd(const Operands& o);
void QuantizedConv2d(const Operands& o);

void Conv2d(const Operands& o);
void Conv2dInputGrad(const Operands& o);
void Conv2dWeightGrad(const Operands& o);
void MaxPool(const Operands& o);
void MaxPoolGrad(const Operands& o);
void AvgPool(const Operands& o);
void AvgPoolGrad(const Operands& o);
void GlobalAvgPool(const Operands& o);
void GlobalAvgPoolGrad(const Operands& o);

void BatchNormTraining(const Operands& o);
void BatchNormUpdate(const Operands& o);
void BatchNormInference(const Operands& o);
void BatchNormTrainingGrad(const Operands& o);
void LayerNorm(const Operands& o);
void LayerNormGrad(const Operands& o);
void Softmax(const Operands& o);
void SoftmaxGrad(const Operands& o);
void FoldBatchNorm(const Operands& o);

absl::Status CrossEntropy(const Operands& o);
absl::Status CrossEntropyGrad(const Operands& o);
absl::Status CorrectCount(const Operands& o);
void MeanSquaredError(const Operands& o);
void MeanSquaredErrorGrad(const Operands& o);
void GlobalNorm(const Operands& o);
void AllReduceStart(const Operands& o);
void AllReduceWait(const Operands& o);

// kernels_elementwise.cc
void UnaryOp(const Operands& o);
void UnaryGrad(const Operands& o);
void BinaryOp(const Operands& o);
void Where(const Operands& o);
void Cast(const Operands& o);
void Fused(const Operands& o);
void Broadcast(const Operands& o);
// kernels_reduce.cc
void Reduce(const Operands& o);
void ArgReduce(const Operands& o);
void CumSum(const Operands& o);
// kernels_movement.cc
void Transpose(const Operands& o);
void Slice(const Operands& o);
void SliceGrad(const Operands& o);
void Pad(const Operands& o);
void PadGrad(const Operands& o);
void Concat(const Operands& o);
void TopK(const Operands& o);
void Random(const Operands& o);
void Resize(const Operands& o);
void ResizeGrad(const Operands& o);
absl::Status Gather(const Operands& o);
absl::Status GatherGrad(const Operands& o);
absl::Status GatherElements(const Operands& o);
absl::Status GatherNd(const Operands& o);
absl::Status TreeWalk(const Operands& o);
absl::Status ScatterElements(const Operands& o);
absl::Status ScatterNd(const Operands& o);
// kernels_products.cc
void BatchMatMul(const Operands& o);
void Attention(const Operands& o);
void AttentionGrad(const Operands& o);
void Lrn(const Operands& o);
void LrnGrad(const Operands& o);
void LogSoftmax(const Operands& o);
void LogSoftmaxGrad(const Operands& o);
// kernels_optimizers.cc
void OptimizerStep(const Operands& o);
void EmaUpdate(const Operands& o);

}  // namespace gpupool::engine::reference
