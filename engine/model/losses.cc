#include "engine/model/losses.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/model/class_weights.h"
#include "engine/model/metric_names.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using autodiff::Formula;
using Binary = BinaryFunction;
using Unary = UnaryFunction;

const TensorType kInt64Scalar{DType::kInt64, {}};
// Rows of scores in a batch of evaluation, each with a number of 8 bytes in the
// graph.
constexpr int64_t kMostEvaluatedRows = int64_t{1} << 26;

absl::Status CheckOutput(const v1::TrainingSpec& training,
                         const Value& output) {
  if (training.loss_case() == v1::TrainingSpec::LOSS_NOT_SET) {
    return Refuse(
        "training has no loss; choose cross_entropy, "
        "mean_squared_error or another one of the job file's list");
  }
  if (output.dtype != DType::kFloat32) {
    return Refuse(LossName(training), " needs a float32 output, but '",
                  output.name, "' is ", DTypeName(output.dtype));
  }
  if (output.shape.elements() == 0) {
    return Refuse(LossName(training), " needs an output with numbers, but '",
                  output.name, "' is ", output.shape.ToString());
  }
  if (output.shape.rank() >= 1) return absl::OkStatus();
  return Refuse(LossName(training), " needs an output with a batch dimension, ",
                "but '", output.name, "' is one number");
}

// Outputs and labels of classification, as rows.
struct Rows {
  ValueId scores;  // [rows, classes]
  ValueId labels;  // int64 [rows]
  int64_t per_example = 1;
};

// Moves the classes of dense scores, [batch, classes, ...], to the last axis.
absl::StatusOr<ValueId> ClassesLast(ValueId scores, GraphBuilder& builder) {
  const int rank = builder.shape(scores).rank();
  std::vector<int> axes = {0};
  for (int axis = 2; axis < rank; ++axis) axes.push_back(axis);
  axes.push_back(1);
  return builder.EmitOne(Op::kTranspose, {scores}, TransposeAttributes{axes});
}

absl::StatusOr<Rows> MakeRows(const v1::TrainingSpec& training, ValueId output,
                              GraphBuilder& builder) {
  const Shape shape = builder.shape(output);
  const std::optional<int> axis = ClassAxis(shape.rank() - 1);
  if (!axis.has_value()) {
    return Refuse(LossName(training), " needs one number per class, but the ",
                  "model's output is ",
                  Shape::Create(shape.dims().subspan(1))->ToString(),
                  "; add a flatten and a dense layer");
  }
  const int64_t classes = shape[*axis + 1];
  std::vector<int64_t> positions(shape.dims().begin(), shape.dims().end());
  positions.erase(positions.begin() + *axis + 1);
  ASSIGN_OR_RETURN(const Shape label_shape, Shape::Create(positions));
  ASSIGN_OR_RETURN(const ValueId labels,
                   builder.Input("labels", {DType::kInt64, label_shape}));
  if (*axis + 2 < shape.rank()) {
    ASSIGN_OR_RETURN(output, ClassesLast(output, builder));
  }
  Formula f(&builder);
  const int64_t rows = label_shape.elements();
  const Rows result{f.Reshape(output, {rows, classes}),
                    f.Reshape(labels, {rows}), rows / shape[0]};
  RETURN_IF_ERROR(f.status());
  return result;
}

LossAttributes CrossEntropyAttributes(const v1::TrainingSpec& training,
                                      Reduction reduction) {
  LossAttributes attributes;
  attributes.reduction = reduction;
  attributes.label_smoothing = training.cross_entropy().label_smoothing();
  const std::optional<int64_t> ignored = IgnoredLabel(training);
  if (ignored.has_value()) attributes.ignore_label = *ignored;
  return attributes;
}

absl::StatusOr<ValueId> Sum(ValueId x, GraphBuilder& builder) {
  std::vector<int> axes(static_cast<size_t>(builder.shape(x).rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return builder.EmitOne(Op::kReduce, {x},
                         ReduceAttributes{ReduceFunction::kSum, axes, false});
}

// Returns whether each label counts, or an invalid value when all do.
ValueId NotIgnored(const v1::TrainingSpec& training, ValueId labels,
                   Formula& f) {
  const std::optional<int64_t> ignored = IgnoredLabel(training);
  if (!ignored.has_value()) return {};
  const ValueId number = f.Number(static_cast<double>(*ignored), labels);
  return f.Unary(Unary::kNot, f.Binary(Binary::kEqual, labels, number));
}

// Returns minus the label's score of each row, and 0 for ignored rows.
absl::StatusOr<ValueId> NegatedScores(const v1::TrainingSpec& training,
                                      const Rows& rows, GraphBuilder& builder) {
  Formula f(&builder);
  const ValueId counts = NotIgnored(training, rows.labels, f);
  ValueId labels = rows.labels;
  // An ignored label may be no class, and a gather would refuse it.
  if (counts.valid()) {
    labels = f.Where(counts, labels, f.Number(0, labels));
  }
  const int64_t count = builder.shape(rows.labels)[0];
  labels = f.Reshape(labels, {count, 1});
  RETURN_IF_ERROR(f.status());
  ASSIGN_OR_RETURN(const ValueId picked,
                   builder.EmitOne(Op::kGatherElements, {rows.scores, labels},
                                   AxisAttributes{1}));
  ValueId negated = f.Unary(Unary::kNegate, f.Reshape(picked, {count}));
  if (counts.valid()) {
    negated = f.Where(counts, negated, f.Number(0, negated));
  }
  RETURN_IF_ERROR(f.status());
  return negated;
}

absl::StatusOr<ValueId> AddNegativeLogLikelihood(
    const v1::TrainingSpec& training, const Rows& rows, GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const ValueId losses,
                   NegatedScores(training, rows, builder));
  ASSIGN_OR_RETURN(const ValueId sum, Sum(losses, builder));
  Formula f(&builder);
  const ValueId counts = NotIgnored(training, rows.labels, f);
  ValueId divisor =
      f.Number(static_cast<double>(builder.shape(rows.labels)[0]), losses);
  if (counts.valid()) {
    const ValueId ones = f.Cast(counts, DType::kFloat32);
    RETURN_IF_ERROR(f.status());
    ASSIGN_OR_RETURN(divisor, Sum(ones, builder));
    // At least 1, so that a batch of ignored labels gives 0 and not NaN.
    divisor = f.Binary(Binary::kMaximum, divisor, f.Number(1, divisor));
  }
  const ValueId mean = f.Binary(Binary::kDivide, sum, divisor);
  RETURN_IF_ERROR(f.status());
  return mean;
}

// Returns weight y softplus(-x) + (1 - y) softplus(x), whose terms are never
// negative and so do not cancel. The weight is 1 when it is invalid.
ValueId BceWithLogits(ValueId x, ValueId y, ValueId weight, Formula& f) {
  const ValueId one = f.Number(1, y);
  const ValueId positive =
      weight.valid() ? f.Binary(Binary::kMultiply, y, weight) : y;
  return f.Binary(
      Binary::kAdd,
      f.Binary(Binary::kMultiply, positive,
               f.Unary(Unary::kSoftplus, f.Unary(Unary::kNegate, x))),
      f.Binary(Binary::kMultiply, f.Binary(Binary::kSubtract, one, y),
               f.Unary(Unary::kSoftplus, x)));
}

// Returns q (|d| - q / 2) with q = min(|d|, delta).
ValueId Huber(ValueId x, ValueId y, double delta, Formula& f) {
  const ValueId distance =
      f.Unary(Unary::kAbs, f.Binary(Binary::kSubtract, x, y));
  const ValueId q =
      f.Binary(Binary::kMinimum, distance, f.Number(delta, distance));
  const ValueId half = f.Binary(Binary::kMultiply, q, f.Number(0.5, q));
  return f.Binary(Binary::kMultiply, q,
                  f.Binary(Binary::kSubtract, distance, half));
}

// Returns y (log y - x), and 0 where y is 0.
ValueId KlDivergence(ValueId x, ValueId y, Formula& f) {
  const ValueId zero = f.Number(0, y);
  const ValueId some = f.Binary(Binary::kGreater, y, zero);
  const ValueId logarithm =
      // Avoids log(0), whose product with 0 would be NaN.
      f.Unary(Unary::kLog, f.Where(some, y, f.Number(1, y)));
  const ValueId losses =
      f.Binary(Binary::kMultiply, y, f.Binary(Binary::kSubtract, logarithm, x));
  return f.Where(some, losses, zero);
}

absl::StatusOr<double> HuberDelta(const v1::Huber& huber) {
  const double delta = huber.has_delta() ? huber.delta() : 1;
  if (delta > 0 && std::isfinite(delta)) return delta;
  return Refuse("huber: delta ", delta, " must be above 0");
}

// Returns the loss of each example, [batch]: the mean over its numbers, or for
// the KL divergence their sum.
absl::StatusOr<ValueId> ExampleLosses(const v1::TrainingSpec& training,
                                      ValueId output, ValueId target,
                                      GraphBuilder& builder) {
  Formula f(&builder);
  ValueId losses;
  auto reduction = ReduceFunction::kMean;
  switch (training.loss_case()) {
    case v1::TrainingSpec::kBceWithLogits: {
      ASSIGN_OR_RETURN(
          const ValueId weight,
          AddPositiveWeights(training.bce_with_logits(), output, builder));
      losses = BceWithLogits(output, target, weight, f);
      break;
    }
    case v1::TrainingSpec::kL1:
      losses =
          f.Unary(Unary::kAbs, f.Binary(Binary::kSubtract, output, target));
      break;
    case v1::TrainingSpec::kHuber: {
      ASSIGN_OR_RETURN(const double delta, HuberDelta(training.huber()));
      losses = Huber(output, target, delta, f);
      break;
    }
    case v1::TrainingSpec::kKlDivergence:
      losses = KlDivergence(output, target, f);
      reduction = ReduceFunction::kSum;
      break;
    default:
      return absl::InternalError("this loss does not compare numbers");
  }
  RETURN_IF_ERROR(f.status());
  const Shape shape = builder.shape(output);
  losses = f.Reshape(losses, {shape[0], shape.elements() / shape[0]});
  RETURN_IF_ERROR(f.status());
  return builder.EmitOne(Op::kReduce, {losses},
                         ReduceAttributes{reduction, {1}, false});
}

absl::StatusOr<ValueId> AddTarget(ValueId output, GraphBuilder& builder) {
  return builder.Input("target", {DType::kFloat32, builder.shape(output)});
}

// Returns flags of the rows that belong to the first row_count examples.
absl::StatusOr<ValueId> RealRows(ValueId row_count, int64_t rows,
                                 int64_t per_example, GraphBuilder& builder) {
  if (rows > kMostEvaluatedRows) {
    return Refuse("a batch has ", rows, " rows to evaluate; at most ",
                  kMostEvaluatedRows, " are possible; use a smaller batch");
  }
  const int64_t examples = rows / per_example;
  std::vector<double> numbers(static_cast<size_t>(examples));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  const ValueId positions =
      builder.Constant({DType::kInt64, {examples, 1}}, std::move(numbers));
  Formula f(&builder);
  const ValueId real =
      f.Reshape(f.Broadcast(f.Binary(Binary::kLess, positions, row_count),
                            {examples, per_example}),
                {rows});
  RETURN_IF_ERROR(f.status());
  return real;
}

// Returns the number of true flags, int64 [].
absl::StatusOr<ValueId> CountTrue(ValueId flags, GraphBuilder& builder) {
  Formula f(&builder);
  const ValueId ones = f.Cast(flags, DType::kInt64);
  RETURN_IF_ERROR(f.status());
  return Sum(ones, builder);
}

// Returns flags of the rows whose label is among the k greatest scores.
absl::StatusOr<ValueId> Hits(const Rows& rows, int64_t k,
                             GraphBuilder& builder) {
  const int64_t count = builder.shape(rows.labels)[0];
  ASSIGN_OR_RETURN(const ValueIds top,
                   builder.Emit(Op::kTopK, {rows.scores},
                                TopKAttributes{.axis = 1, .k = k}));
  Formula f(&builder);
  const ValueId same =
      f.Binary(Binary::kEqual, top[1], f.Reshape(rows.labels, {count, 1}));
  const ValueId any =
      f.Reduce(ReduceFunction::kMax, f.Cast(same, DType::kInt64), {1});
  const ValueId hits =
      f.Binary(Binary::kGreater, f.Reshape(any, {count}), f.Number(0, any));
  RETURN_IF_ERROR(f.status());
  return hits;
}

absl::Status CheckTopK(const v1::TrainingSpec& training, int64_t classes) {
  if (int64_t{training.top_k()} <= classes) return absl::OkStatus();
  return Refuse("training.top_k is ", training.top_k(),
                ", but the model tells only ", classes, " classes apart");
}

// Adds the outputs that the metrics of a classification need.
absl::Status AddMetricOutputs(const v1::TrainingSpec& training, ValueId scores,
                              GraphBuilder& builder) {
  if (CountsAnswers(training)) {
    ASSIGN_OR_RETURN(const ValueId answers,
                     builder.EmitOne(Op::kArgReduce, {scores},
                                     ArgReduceAttributes{.axis = 1}));
    builder.graph().AddOutput("answers", answers);
  }
  if (HasMetric(training, "auc")) builder.graph().AddOutput("scores", scores);
  return absl::OkStatus();
}

absl::Status EvaluateClasses(const v1::TrainingSpec& training, ValueId output,
                             ValueId row_count, GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const Rows rows, MakeRows(training, output, builder));
  const int64_t count = builder.shape(rows.labels)[0];
  RETURN_IF_ERROR(CheckTopK(training, builder.shape(rows.scores)[1]));
  Formula f(&builder);
  const ValueId limit =
      rows.per_example == 1
          ? row_count
          : f.Binary(
                Binary::kMultiply, row_count,
                f.Number(static_cast<double>(rows.per_example), row_count));
  ASSIGN_OR_RETURN(ValueId counts,
                   RealRows(row_count, count, rows.per_example, builder));
  const ValueId kept = NotIgnored(training, rows.labels, f);
  if (kept.valid()) counts = f.Binary(Binary::kAnd, counts, kept);
  RETURN_IF_ERROR(f.status());
  ValueId loss;
  if (!ClassWeights(training).empty()) {
    ASSIGN_OR_RETURN(
        const WeightedLosses weighted,
        AddWeightedLosses(training, {rows.scores, rows.labels, counts},
                          builder));
    ASSIGN_OR_RETURN(loss, Sum(weighted.losses, builder));
    ASSIGN_OR_RETURN(const ValueId weight, Sum(weighted.weights, builder));
    builder.graph().AddOutput("weight_sum", weight);
  } else if (training.has_cross_entropy()) {
    ASSIGN_OR_RETURN(
        loss,
        builder.EmitOne(Op::kCrossEntropy, {rows.scores, rows.labels, limit},
                        CrossEntropyAttributes(training, Reduction::kSum)));
  } else {
    ASSIGN_OR_RETURN(const ValueId losses,
                     NegatedScores(training, rows, builder));
    const ValueId real = f.Where(counts, losses, f.Number(0, losses));
    RETURN_IF_ERROR(f.status());
    ASSIGN_OR_RETURN(loss, Sum(real, builder));
  }
  builder.graph().AddOutput("loss_sum", loss);
  const auto add_hits = [&](absl::string_view name, int64_t k) -> absl::Status {
    ASSIGN_OR_RETURN(const ValueId hits, Hits(rows, k, builder));
    const ValueId real = f.Binary(Binary::kAnd, hits, counts);
    RETURN_IF_ERROR(f.status());
    ASSIGN_OR_RETURN(const ValueId number, CountTrue(real, builder));
    builder.graph().AddOutput(name, number);
    return absl::OkStatus();
  };
  // kCorrectCount does not know ignored labels.
  if (kept.valid()) {
    RETURN_IF_ERROR(add_hits("correct", 1));
  } else {
    ASSIGN_OR_RETURN(
        const ValueId correct,
        builder.EmitOne(Op::kCorrectCount, {rows.scores, rows.labels, limit}));
    builder.graph().AddOutput("correct", correct);
  }
  if (training.top_k() > 0) {
    RETURN_IF_ERROR(add_hits("top_k_correct", training.top_k()));
  }
  RETURN_IF_ERROR(AddMetricOutputs(training, rows.scores, builder));
  if (!kept.valid() && rows.per_example == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId counted, CountTrue(counts, builder));
  builder.graph().AddOutput("counted", counted);
  return absl::OkStatus();
}

absl::Status EvaluateNumbers(const v1::TrainingSpec& training, ValueId output,
                             ValueId row_count, GraphBuilder& builder) {
  if (training.top_k() > 0) {
    return Refuse("training.top_k is set, but ", LossName(training),
                  " knows no classes; leave it out");
  }
  ASSIGN_OR_RETURN(const ValueId target, AddTarget(output, builder));
  if (!training.metrics().empty()) builder.graph().AddOutput("outputs", output);
  ValueId loss;
  if (training.has_mean_squared_error()) {
    ASSIGN_OR_RETURN(
        loss,
        builder.EmitOne(Op::kMeanSquaredError, {output, target, row_count},
                        LossAttributes{.reduction = Reduction::kSum}));
  } else {
    ASSIGN_OR_RETURN(const ValueId losses,
                     ExampleLosses(training, output, target, builder));
    ASSIGN_OR_RETURN(const ValueId counts,
                     RealRows(row_count, builder.shape(losses)[0], 1, builder));
    Formula f(&builder);
    const ValueId real = f.Where(counts, losses, f.Number(0, losses));
    RETURN_IF_ERROR(f.status());
    ASSIGN_OR_RETURN(loss, Sum(real, builder));
  }
  builder.graph().AddOutput("loss_sum", loss);
  return absl::OkStatus();
}

}  // namespace

bool IsClassification(const v1::TrainingSpec& training) {
  return training.has_cross_entropy() || training.has_negative_log_likelihood();
}

std::optional<int> ClassAxis(int rank) {
  if (rank == 1 || rank == 2) return rank - 1;
  if (rank == 3 || rank == 4) return 0;
  return std::nullopt;
}

std::optional<int64_t> IgnoredLabel(const v1::TrainingSpec& training) {
  const auto& cross_entropy = training.cross_entropy();
  if (cross_entropy.has_ignore_label()) return cross_entropy.ignore_label();
  const auto& likelihood = training.negative_log_likelihood();
  if (likelihood.has_ignore_label()) return likelihood.ignore_label();
  return std::nullopt;
}

absl::string_view LossName(const v1::TrainingSpec& training) {
  const auto* field = v1::TrainingSpec::descriptor()->FindFieldByNumber(
      static_cast<int>(training.loss_case()));
  return field == nullptr ? "" : absl::string_view(field->name());
}

absl::StatusOr<ValueId> AddLoss(const v1::TrainingSpec& training,
                                ValueId output, GraphBuilder& builder) {
  RETURN_IF_ERROR(CheckOutput(training, builder.value(output)));
  if (IsClassification(training)) {
    ASSIGN_OR_RETURN(const Rows rows, MakeRows(training, output, builder));
    if (!ClassWeights(training).empty()) {
      Formula f(&builder);
      const ValueId counts = NotIgnored(training, rows.labels, f);
      RETURN_IF_ERROR(f.status());
      ASSIGN_OR_RETURN(
          const WeightedLosses losses,
          AddWeightedLosses(training, {rows.scores, rows.labels, counts},
                            builder));
      return AddWeightedMean(losses, builder);
    }
    if (training.has_negative_log_likelihood()) {
      return AddNegativeLogLikelihood(training, rows, builder);
    }
    return builder.EmitOne(Op::kCrossEntropy, {rows.scores, rows.labels},
                           CrossEntropyAttributes(training, Reduction::kMean));
  }
  ASSIGN_OR_RETURN(const ValueId target, AddTarget(output, builder));
  if (training.has_mean_squared_error()) {
    return builder.EmitOne(Op::kMeanSquaredError, {output, target},
                           LossAttributes{});
  }
  ASSIGN_OR_RETURN(const ValueId losses,
                   ExampleLosses(training, output, target, builder));
  return builder.EmitOne(Op::kReduce, {losses},
                         ReduceAttributes{ReduceFunction::kMean, {0}, false});
}

absl::Status AddEvaluation(const v1::TrainingSpec& training, ValueId output,
                           GraphBuilder& builder) {
  RETURN_IF_ERROR(CheckOutput(training, builder.value(output)));
  // Several losses of one program count the same rows.
  const Value* present = builder.graph().FindValue("row_count");
  ValueId row_count = present == nullptr ? ValueId{} : present->id;
  if (present == nullptr) {
    ASSIGN_OR_RETURN(row_count, builder.Input("row_count", kInt64Scalar));
  }
  return IsClassification(training)
             ? EvaluateClasses(training, output, row_count, builder)
             : EvaluateNumbers(training, output, row_count, builder);
}

}  // namespace gpupool::engine
