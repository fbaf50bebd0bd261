#include "engine/model/class_weights.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/model/losses.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using autodiff::Formula;
using Binary = BinaryFunction;
using Unary = UnaryFunction;

ValueId WeightConstant(absl::Span<const double> weights, const Shape& shape,
                       GraphBuilder& builder) {
  return builder.Constant({DType::kFloat32, shape},
                          {weights.begin(), weights.end()});
}

// Adds the sum over the classes of weight * -log probability, [rows].
absl::StatusOr<ValueId> AddSmoothLosses(ValueId log,
                                        absl::Span<const double> weights,
                                        GraphBuilder& builder) {
  const int64_t rows = builder.shape(log)[0], classes = builder.shape(log)[1];
  Formula f(&builder);
  const ValueId row = WeightConstant(weights, {1, classes}, builder);
  const ValueId sum = f.Reduce(ReduceFunction::kSum,
                               f.Binary(Binary::kMultiply, log, row), {1});
  const ValueId losses = f.Unary(Unary::kNegate, f.Reshape(sum, {rows}));
  RETURN_IF_ERROR(f.status());
  return losses;
}

absl::Status CheckWeights(absl::string_view field,
                          absl::Span<const double> weights, bool zero_is_fine) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const double weight = weights[i];
    // Programs hold it in float32.
    const bool finite = weight <= std::numeric_limits<float>::max();
    if (finite && (zero_is_fine ? weight >= 0 : weight > 0)) continue;
    return Refuse(field, "[", i, "] is ", weight, "; each weight must be ",
                  zero_is_fine ? "at least 0" : "above 0", " and fit float32");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const double> ClassWeights(const v1::TrainingSpec& training) {
  return training.has_negative_log_likelihood()
             ? training.negative_log_likelihood().class_weights()
             : training.cross_entropy().class_weights();
}

absl::Status CheckLossWeights(const v1::TrainingSpec& training) {
  RETURN_IF_ERROR(CheckWeights("bce_with_logits.positive_weights",
                               training.bce_with_logits().positive_weights(),
                               false));
  const absl::Span<const double> weights = ClassWeights(training);
  const std::string field = absl::StrCat(LossName(training), ".class_weights");
  RETURN_IF_ERROR(CheckWeights(field, weights, true));
  const bool some = std::any_of(weights.begin(), weights.end(),
                                [](double weight) { return weight > 0; });
  if (some || weights.empty()) return absl::OkStatus();
  return Refuse(field, " are all 0, so nothing would be trained; set one of ",
                "them above 0");
}

absl::StatusOr<WeightedLosses> AddWeightedLosses(
    const v1::TrainingSpec& training, const ClassRows& rows,
    GraphBuilder& builder) {
  const int64_t count = builder.shape(rows.scores)[0];
  const int64_t classes = builder.shape(rows.scores)[1];
  const absl::Span<const double> weights = ClassWeights(training);
  if (weights.size() != static_cast<size_t>(classes)) {
    return Refuse(LossName(training), ".class_weights has ", weights.size(),
                  " weights, but the model tells ", classes,
                  " classes apart; give one for each class");
  }
  Formula f(&builder);
  // An ignored label may be no class, and a gather would refuse it.
  ValueId labels = rows.labels;
  if (rows.counts.valid()) {
    labels = f.Where(rows.counts, labels, f.Number(0, labels));
  }
  const ValueId column = f.Reshape(labels, {count, 1});
  RETURN_IF_ERROR(f.status());
  ValueId log = rows.scores;
  if (training.has_cross_entropy()) {
    ASSIGN_OR_RETURN(log, builder.EmitOne(Op::kLogSoftmax, {rows.scores}));
  }
  ASSIGN_OR_RETURN(
      const ValueId picked,
      builder.EmitOne(Op::kGatherElements, {log, column}, AxisAttributes{1}));
  WeightedLosses result;
  ASSIGN_OR_RETURN(
      result.weights,
      builder.EmitOne(Op::kGather,
                      {WeightConstant(weights, {classes}, builder), labels},
                      AxisAttributes{0}));
  result.losses = f.Unary(
      Unary::kNegate,
      f.Binary(Binary::kMultiply, result.weights, f.Reshape(picked, {count})));
  const double smoothing = training.cross_entropy().label_smoothing();
  if (smoothing > 0) {
    RETURN_IF_ERROR(f.status());
    ASSIGN_OR_RETURN(const ValueId smooth,
                     AddSmoothLosses(log, weights, builder));
    const double share = smoothing / static_cast<double>(classes);
    result.losses =
        f.Binary(Binary::kAdd,
                 f.Binary(Binary::kMultiply, result.losses,
                          f.Number(1 - smoothing, result.losses)),
                 f.Binary(Binary::kMultiply, smooth, f.Number(share, smooth)));
  }
  if (rows.counts.valid()) {
    const ValueId zero = f.Number(0, result.losses);
    result.losses = f.Where(rows.counts, result.losses, zero);
    result.weights = f.Where(rows.counts, result.weights, zero);
  }
  RETURN_IF_ERROR(f.status());
  return result;
}

absl::StatusOr<ValueId> AddWeightedMean(const WeightedLosses& rows,
                                        GraphBuilder& builder) {
  Formula f(&builder);
  const ValueId sum =
      f.Reshape(f.Reduce(ReduceFunction::kSum, rows.losses, {0}), {});
  const ValueId weight =
      f.Reshape(f.Reduce(ReduceFunction::kSum, rows.weights, {0}), {});
  // A batch without weight gives 0 and not NaN.
  const ValueId some = f.Binary(Binary::kGreater, weight, f.Number(0, weight));
  const ValueId mean =
      f.Binary(Binary::kDivide, f.Where(some, sum, f.Number(0, sum)),
               f.Where(some, weight, f.Number(1, weight)));
  RETURN_IF_ERROR(f.status());
  return mean;
}

absl::StatusOr<ValueId> AddPositiveWeights(const v1::BceWithLogits& loss,
                                           ValueId output,
                                           GraphBuilder& builder) {
  const absl::Span<const double> weights = loss.positive_weights();
  if (weights.empty()) return ValueId{};
  if (weights.size() == 1) return WeightConstant(weights, {}, builder);
  const Shape& batch = builder.shape(output);
  const Shape example = Shape::Create(batch.dims().subspan(1)).value();
  if (weights.size() == static_cast<size_t>(example.elements())) {
    return WeightConstant(weights, example, builder);
  }
  return Refuse("bce_with_logits.positive_weights has ", weights.size(),
                " weights, but the model's output has ", example.elements(),
                " numbers; give one weight, or one for each number");
}

}  // namespace gpupool::engine
