#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

// Returns a batch with at least two numbers per channel.
Shape RandomBatch(OpCase& at) {
  const int64_t n = at.Pick(2, 9), c = at.Pick(1, 40);
  switch (at.Pick(0, 2)) {
    case 0:
      return {n, c};
    case 1:
      return {n, c, at.Pick(1, 9)};
    default:
      return {n, c, at.Pick(1, 9), at.Pick(1, 9)};
  }
}

NormAttributes RandomNorm(OpCase& at) {
  return {at.Coin() ? 1e-5 : 1e-3, at.Coin()};
}

void BuildBatchNormTraining(OpCase& at) {
  const Shape x = RandomBatch(at), c{x[1]};
  at.Emit(Op::kBatchNormTraining, {at.Floats(x), at.Weights(c), at.Weights(c)},
          RandomNorm(at));
}

void BuildBatchNormInference(OpCase& at) {
  const Shape x = RandomBatch(at), c{x[1]};
  at.Emit(Op::kBatchNormInference,
          {at.Floats(x), at.Weights(c), at.Weights(c), at.Weights(c),
           at.Weights(c, 0.1, 2)},
          RandomNorm(at));
}

void BuildBatchNormTrainingGrad(OpCase& at) {
  const Shape x = RandomBatch(at), c{x[1]};
  at.Emit(Op::kBatchNormTrainingGrad,
          {at.Floats(x), at.Floats(x), at.Weights(c), at.Floats(c),
           at.Floats(c, 0.1, 2)},
          RandomNorm(at));
}

void BuildBatchNormUpdate(OpCase& at) {
  const Shape c{at.Pick(1, 40)};
  const ValueId mean = at.Weights(c), variance = at.Weights(c, 0.1, 2);
  at.EmitUpdate(Op::kBatchNormUpdate,
                {mean, variance, at.Floats(c), at.Floats(c, 0.1, 2)},
                BatchNormUpdateAttributes{0.1, at.Pick(2, 100)},
                {mean, variance});
}

void BuildFoldBatchNorm(OpCase& at) {
  const Shape w{at.Pick(1, 20), at.Pick(1, 9), 3, 3}, c{w[0]};
  std::vector<ValueId> inputs = {at.Weights(w), at.Weights(c), at.Weights(c),
                                 at.Weights(c), at.Weights(c, 0.1, 2)};
  if (at.Coin()) inputs.push_back(at.Weights(c));
  at.Emit(Op::kFoldBatchNorm, inputs, RandomNorm(at));
}

Shape RandomRows(OpCase& at) {
  if (at.Coin()) return {at.Pick(1, 150), at.Pick(1, 200)};
  return {at.Pick(1, 5), at.Pick(1, 9), at.Pick(1, 40)};
}

Shape Last(const Shape& x) { return {x[x.rank() - 1]}; }

void BuildLayerNorm(OpCase& at) {
  const Shape x = RandomRows(at);
  at.Emit(Op::kLayerNorm,
          {at.Floats(x), at.Weights(Last(x)), at.Weights(Last(x))},
          RandomNorm(at));
}

void BuildLayerNormGrad(OpCase& at) {
  const Shape x = RandomRows(at), last = Last(x);
  const Shape rows{x.elements() / last[0]};
  at.Emit(Op::kLayerNormGrad,
          {at.Floats(x), at.Floats(x), at.Weights(last), at.Floats(rows),
           at.Floats(rows, 0.1, 2)},
          RandomNorm(at));
}

LossAttributes RandomLoss(OpCase& at) {
  // With few classes, label 1 often marks rows that are ignored.
  return {at.Coin() ? Reduction::kMean : Reduction::kSum, at.Coin() ? 0.0 : 0.1,
          at.Coin() ? int64_t{1} : int64_t{-100}};
}

std::vector<ValueId> LogitsAndLabels(OpCase& at) {
  const int64_t rows = at.Pick(1, 70);
  const int64_t classes = at.Coin() ? at.Pick(2, 4) : at.Pick(2, 50);
  const DType dtype = at.Coin() ? DType::kInt32 : DType::kInt64;
  return {at.Floats({rows, classes}, -9, 9),
          at.Integers({rows}, dtype, 0, classes - 1)};
}

void AddRowCount(OpCase& at, std::vector<ValueId>& inputs) {
  if (at.Coin()) return;
  const int64_t rows = at.graph().value(inputs[0]).shape[0];
  inputs.push_back(at.Integers({}, DType::kInt64, 1, rows));
}

void BuildCrossEntropy(OpCase& at) {
  std::vector<ValueId> inputs = LogitsAndLabels(at);
  AddRowCount(at, inputs);
  at.Emit(Op::kCrossEntropy, inputs, RandomLoss(at));
}

void BuildCrossEntropyGrad(OpCase& at) {
  at.Emit(Op::kCrossEntropyGrad, LogitsAndLabels(at), RandomLoss(at));
}

void BuildCorrectCount(OpCase& at) {
  std::vector<ValueId> inputs = LogitsAndLabels(at);
  AddRowCount(at, inputs);
  at.Emit(Op::kCorrectCount, inputs);
}

void BuildMeanSquaredError(OpCase& at, bool gradient) {
  const Shape shape = RandomRows(at);
  std::vector<ValueId> inputs = {at.Floats(shape), at.Floats(shape)};
  if (!gradient) AddRowCount(at, inputs);
  if (gradient) {
    at.Emit(Op::kMeanSquaredErrorGrad, inputs, LossAttributes{});
  } else {
    at.Emit(Op::kMeanSquaredError, inputs, RandomLoss(at));
  }
}

void BuildColumnSum(OpCase& at) {
  at.Emit(Op::kColumnSum, {at.Floats({at.Pick(1, 150), at.Pick(1, 1200)})});
}

void BuildGlobalNorm(OpCase& at) {
  std::vector<ValueId> gradients;
  for (int64_t i = at.Pick(1, 4); i > 0; --i) {
    gradients.push_back(at.Floats({at.Pick(1, 90), at.Pick(1, 300)}));
  }
  at.Emit(Op::kGlobalNorm, gradients);
}

Shape RandomTrained(OpCase& at) {
  return at.Coin() ? Shape{at.Pick(1, 90)}
                   : Shape{at.Pick(1, 300), at.Pick(1, 500)};
}

std::vector<ValueId> StepInputs(OpCase& at, const Shape& shape) {
  return {at.Weights(shape), at.Floats(shape), at.Scalar(DType::kFloat64, 0.01),
          at.Integers({}, DType::kInt64, 1, 3)};
}

void BuildSgdStep(OpCase& at) {
  SgdAttributes sgd;
  sgd.momentum = at.Coin() ? 0.9 : 0;
  sgd.nesterov = sgd.momentum != 0 && at.Coin();
  sgd.dampening = sgd.momentum != 0 && !sgd.nesterov && at.Coin() ? 0.1 : 0;
  sgd.weight_decay = at.Coin() ? 0.1 : 0;
  sgd.clip = at.Coin();
  const Shape shape = RandomTrained(at);
  std::vector<ValueId> inputs = StepInputs(at, shape);
  std::vector<ValueId> updated = {inputs[0]};
  if (sgd.momentum != 0) {
    updated.push_back(at.Weights(shape));
    inputs.push_back(updated.back());
  }
  if (sgd.clip) inputs.push_back(at.Floats({}, 0.1, 1));
  at.EmitUpdate(Op::kSgdStep, inputs, sgd, updated);
}

void BuildAdamStep(OpCase& at) {
  AdamAttributes adam;
  adam.weight_decay = at.Coin() ? 0.1 : 0;
  adam.decoupled = at.Coin();
  adam.clip = at.Coin();
  const Shape shape = RandomTrained(at);
  std::vector<ValueId> inputs = StepInputs(at, shape);
  const ValueId m = at.Weights(shape), v = at.Weights(shape, 0.01, 1);
  inputs.insert(inputs.end(), {m, v});
  if (adam.clip) inputs.push_back(at.Floats({}, 0.1, 1));
  at.EmitUpdate(Op::kAdamStep, inputs, adam, {inputs[0], m, v});
}

}  // namespace

std::vector<OpCaseMaker> TrainingOpCases() {
  return {
      {"BatchNormTraining", BuildBatchNormTraining, 1e-5},
      {"BatchNormInference", BuildBatchNormInference, 1e-5},
      {"BatchNormTrainingGrad", BuildBatchNormTrainingGrad, 1e-5},
      {"BatchNormUpdate", BuildBatchNormUpdate},
      {"FoldBatchNorm", BuildFoldBatchNorm},
      {"LayerNorm", BuildLayerNorm, 1e-5},
      {"LayerNormGrad", BuildLayerNormGrad, 1e-5},
      {"CrossEntropy", BuildCrossEntropy},
      {"CrossEntropyGrad", BuildCrossEntropyGrad},
      {"CorrectCount", BuildCorrectCount, 0},
      {"MeanSquaredError",
       [](OpCase& at) { BuildMeanSquaredError(at, false); }},
      {"MeanSquaredErrorGrad",
       [](OpCase& at) { BuildMeanSquaredError(at, true); }},
      {"ColumnSum", BuildColumnSum, 1e-5},
      {"GlobalNorm", BuildGlobalNorm},
      {"SgdStep", BuildSgdStep},
      {"AdamStep", BuildAdamStep, 5e-6},
  };
}

}  // namespace gpupool::engine
