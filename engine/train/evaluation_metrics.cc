#include "engine/train/evaluation_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/model/losses.h"
#include "engine/model/metric_names.h"
#include "engine/train/program_scalars.h"

namespace gpupool::engine {
namespace {

template <typename T>
absl::Span<const T> ValuesAs(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
absl::Span<const std::byte> BytesOf(absl::Span<const T> numbers) {
  return {reinterpret_cast<const std::byte*>(numbers.data()),
          numbers.size() * sizeof(T)};
}

template <typename T>
void CopyTo(std::vector<T>& copy, absl::Span<const std::byte> bytes) {
  const auto numbers = ValuesAs<T>(bytes);
  copy.assign(numbers.begin(), numbers.end());
}

// Returns the axis of classes or answers in an example's output; none for a
// single number.
std::optional<int> AnswerAxis(const Shape& output) {
  if (output.rank() == 0) return std::nullopt;
  return ClassAxis(output.rank()).value_or(output.rank() - 1);
}

int64_t ClassesOf(const Shape& output) {
  const std::optional<int> axis = AnswerAxis(output);
  return axis.has_value() ? output[*axis] : 1;
}

}  // namespace

absl::Status CheckMetricSizes(const v1::TrainingSpec& training,
                              const Shape& output, uint64_t rows) {
  const int64_t classes = ClassesOf(output);
  if (HasMetric(training, "confusion")) {
    if (training.has_bce_with_logits() && classes > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "training.metrics: 'confusion' needs one answer for each row, but ",
          "the model gives ", classes, "; leave it out"));
    }
    if (classes > kMaxConfusionClasses) {
      return absl::InvalidArgumentError(absl::StrCat(
          "training.metrics: 'confusion' of ", classes, " classes has ",
          classes * classes, " numbers; at most ", kMaxConfusionClasses,
          " classes are reported; leave it out"));
    }
  }
  if (!HasMetric(training, "auc")) return absl::OkStatus();
  const auto columns = static_cast<uint64_t>(
      training.has_bce_with_logits() ? classes : ScoreColumns(classes));
  const auto positions = static_cast<uint64_t>(output.elements() / classes);
  // The division cannot overflow, as a product with `rows` could.
  if (rows <= kMaxKeptScores / (columns * positions)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "training.metrics: 'auc' keeps a score for each evaluated label and ",
      "class, at most ", kMaxKeptScores, ", but ", rows, " rows have ",
      columns * positions, " each; evaluate fewer rows or leave it out"));
}

void AddBatch(const Executor& eval, int64_t rows, EvaluationSums& sums) {
  sums.loss += GetScalar<float>(eval, "loss_sum");
  sums.correct += CountOf(eval, "correct");
  sums.top_k += CountOf(eval, "top_k_correct");
  // The program has these outputs only if some labels do not count or have
  // weights.
  const int64_t counted = eval.output("counted").empty()
                              ? rows
                              : GetScalar<int64_t>(eval, "counted");
  sums.counted += counted;
  sums.weight += eval.output("weight_sum").empty()
                     ? static_cast<double>(counted)
                     : double{GetScalar<float>(eval, "weight_sum")};
}

void AddOtherLosses(const std::vector<TrainedOutput>& outputs,
                    const Executor& eval, int64_t rows, EvaluationSums& sums) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].term.leads) continue;
    const std::string& suffix = outputs[i].term.suffix;
    const std::string weight = absl::StrCat("weight_sum", suffix);
    const std::string counted = absl::StrCat("counted", suffix);
    sums.others[i].loss +=
        GetScalar<float>(eval, absl::StrCat("loss_sum", suffix));
    if (!eval.output(weight).empty()) {
      sums.others[i].weight += GetScalar<float>(eval, weight);
    } else if (!eval.output(counted).empty()) {
      sums.others[i].weight +=
          static_cast<double>(GetScalar<int64_t>(eval, counted));
    } else {
      sums.others[i].weight += static_cast<double>(rows);
    }
  }
}

double SumOfLosses(const std::vector<TrainedOutput>& outputs, double leading,
                   const EvaluationSums& sums) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const WeightedSum& other = sums.others[i];
    // When every label is ignored, both sums are 0.
    const double mean = other.weight > 0 ? other.loss / other.weight : 0;
    sum += outputs[i].term.weight * (outputs[i].term.leads ? leading : mean);
  }
  return sum;
}

void SetMeans(const v1::TrainingSpec& training, const EvaluationSums& sums,
              v1::Evaluation& evaluation) {
  evaluation.set_loss(sums.weight > 0 ? sums.loss / sums.weight : 0);
  if (!IsClassification(training) || sums.counted == 0) return;
  const auto count = static_cast<double>(sums.counted);
  evaluation.set_accuracy(static_cast<double>(sums.correct) / count);
  if (training.top_k() == 0) return;
  evaluation.set_top_k_accuracy(static_cast<double>(sums.top_k) / count);
}

EvaluationMetrics::EvaluationMetrics(const v1::TrainingSpec& training,
                                     const Shape& output)
    : training_(training),
      per_row_(output.elements()),
      classes_(ClassesOf(output)),
      // The classes are the first axis of an example for images, [C, H, W].
      classes_first_(output.rank() > 1 && AnswerAxis(output) == 0) {
  const bool answers = training.has_bce_with_logits();
  if (CountsAnswers(training)) {
    const bool many = answers && classes_ > 1;
    counts_.emplace(
        answers && !many ? 2 : classes_,
        many ? ClassCounts::Form::kYesOrNo : ClassCounts::Form::kOneOfMany,
        HasMetric(training, "confusion"));
  }
  if (HasMetric(training, "auc")) {
    scores_.emplace();
    scores_->columns = answers ? classes_ : ScoreColumns(classes_);
  }
  if (ComparesNumbers(training)) sums_.emplace(per_row_);
}

void EvaluationMetrics::TakeLabels(const Executor& eval) {
  if (!counts_.has_value() && !scores_.has_value() && !sums_.has_value()) {
    return;
  }
  if (IsClassification(training_)) {
    CopyTo(labels_, eval.input("labels"));
  } else {
    CopyTo(targets_, eval.input("target"));
  }
}

void EvaluationMetrics::AddBatch(const Executor& eval, int64_t rows) {
  if (IsClassification(training_)) {
    AddClasses(eval, rows);
  } else if (sums_.has_value()) {
    AddNumbers(eval, rows);
  } else {
    AddAnswers(eval, rows);
  }
}

void EvaluationMetrics::AddClasses(const Executor& eval, int64_t rows) {
  if (!counts_.has_value() && !scores_.has_value()) return;
  const auto count = static_cast<size_t>(rows * (per_row_ / classes_));
  const auto answers = ValuesAs<int64_t>(eval.output("answers"));
  const auto scores = ValuesAs<float>(eval.output("scores"));
  GPUPOOL_CHECK(labels_.size() >= count);
  GPUPOOL_CHECK(!counts_.has_value() || answers.size() >= count);
  const auto classes = static_cast<size_t>(classes_);
  GPUPOOL_CHECK(!scores_.has_value() || scores.size() >= count * classes);
  const std::optional<int64_t> ignored = IgnoredLabel(training_);
  for (size_t i = 0; i < count; ++i) {
    // No metric counts a position whose label is ignored.
    if (labels_[i] == ignored) continue;
    if (counts_.has_value()) counts_->Add(labels_[i], answers[i]);
    if (!scores_.has_value()) continue;
    AddClassScores(scores.subspan(i * classes, classes), labels_[i], *scores_);
  }
}

void EvaluationMetrics::AddAnswers(const Executor& eval, int64_t rows) {
  if (!counts_.has_value() && !scores_.has_value()) return;
  const auto outputs = ValuesAs<float>(eval.output("outputs"));
  const int64_t positions = per_row_ / classes_;
  GPUPOOL_CHECK(outputs.size() >= static_cast<size_t>(rows * per_row_) &&
                targets_.size() >= static_cast<size_t>(rows * per_row_));
  for (int64_t i = 0; i < rows * per_row_; ++i) {
    // Visits the answers of a position one after the other.
    const int64_t c = i % classes_;
    const int64_t row = i / per_row_, position = i % per_row_ / classes_;
    const int64_t at =
        classes_first_ ? row * per_row_ + c * positions + position : i;
    const float output = outputs[static_cast<size_t>(at)];
    // An output is a logit. Above 0 its sigmoid is above one half.
    const bool label = targets_[static_cast<size_t>(at)] >= 0.5f;
    const bool answer = output > 0;
    if (counts_.has_value()) {
      if (classes_ == 1) {
        counts_->Add(label, answer);
      } else {
        counts_->AddAnswer(c, label, answer);
      }
    }
    if (!scores_.has_value()) continue;
    scores_->scores.push_back(output);
    scores_->belongs.push_back(label);
  }
}

void EvaluationMetrics::AddNumbers(const Executor& eval, int64_t rows) {
  const auto outputs = ValuesAs<float>(eval.output("outputs"));
  const auto columns = static_cast<size_t>(per_row_);
  const size_t count = static_cast<size_t>(rows) * columns;
  GPUPOOL_CHECK(outputs.size() >= count && targets_.size() >= count);
  const absl::Span<const float> targets = targets_;
  for (size_t i = 0; i < count; i += columns) {
    sums_->Add(outputs.subspan(i, columns), targets.subspan(i, columns));
  }
}

absl::Status EvaluationMetrics::AddRanks(RankLink& link) {
  const auto size = static_cast<size_t>(link.size());
  if (counts_.has_value()) {
    const absl::Span<int64_t> own = counts_->numbers();
    ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                     link.Gather(BytesOf(absl::Span<const int64_t>(own))));
    const auto all = ValuesAs<int64_t>(bytes);
    // The gathered numbers include those of this rank, so the sums start at 0.
    for (size_t i = 0; i < own.size(); ++i) {
      own[i] = 0;
      for (size_t r = 0; r < size; ++r) own[i] += all[r * own.size() + i];
    }
  }
  if (sums_.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                     link.Gather(BytesOf(sums_->numbers())));
    const auto all = ValuesAs<double>(bytes);
    const size_t count = sums_->numbers().size();
    sums_.emplace(per_row_);
    // Every rank merges in the order of the ranks, so that all get the same
    // rounding errors and the same result.
    for (size_t r = 0; r < size; ++r) {
      sums_->Merge(all.subspan(r * count, count));
    }
  }
  return scores_.has_value() ? AddScoresOfRanks(link) : absl::OkStatus();
}

absl::Status EvaluationMetrics::AddScoresOfRanks(RankLink& link) {
  // Ignored labels leave ranks with different numbers of scores.
  const uint64_t own = scores_->scores.size();
  ASSIGN_OR_RETURN(const std::vector<std::byte> counts,
                   link.Gather(BytesOf(absl::Span<const uint64_t>(&own, 1))));
  const auto sizes = ValuesAs<uint64_t>(counts);
  const uint64_t most = *std::max_element(sizes.begin(), sizes.end());
  if (most == 0) return absl::OkStatus();
  // Gather takes the same number of bytes from each rank, so short lists are
  // padded. The padding is cut off below.
  scores_->scores.resize(most);
  scores_->belongs.resize(most);
  ASSIGN_OR_RETURN(
      const std::vector<std::byte> scores,
      link.Gather(BytesOf(absl::Span<const float>(scores_->scores))));
  ASSIGN_OR_RETURN(
      const std::vector<std::byte> belongs,
      link.Gather(BytesOf(absl::Span<const uint8_t>(scores_->belongs))));
  scores_->scores.clear();
  scores_->belongs.clear();
  for (size_t r = 0; r < sizes.size(); ++r) {
    const auto some = ValuesAs<float>(scores).subspan(r * most, sizes[r]);
    const auto flags = ValuesAs<uint8_t>(belongs).subspan(r * most, sizes[r]);
    scores_->scores.insert(scores_->scores.end(), some.begin(), some.end());
    scores_->belongs.insert(scores_->belongs.end(), flags.begin(), flags.end());
  }
  return absl::OkStatus();
}

void EvaluationMetrics::Report(v1::Evaluation& evaluation) const {
  for (const std::string& name : training_.metrics()) {
    std::optional<double> value;
    if (name == "precision") value = counts_->Precision();
    if (name == "recall") value = counts_->Recall();
    if (name == "f1") value = counts_->F1();
    if (name == "iou") value = counts_->IntersectionOverUnion();
    if (name == "auc") value = AreaUnderCurve(*scores_);
    // Perplexity is e to the power of the mean cross-entropy in nats.
    if (name == "perplexity") value = std::exp(evaluation.loss());
    if (name == "mae") value = sums_->MeanAbsoluteError();
    if (name == "r2") value = sums_->R2();
    if (value.has_value()) (*evaluation.mutable_metrics())[name] = *value;
    if (name != "confusion") continue;
    v1::ConfusionMatrix& matrix = *evaluation.mutable_confusion();
    matrix.set_classes(static_cast<uint32_t>(counts_->classes()));
    const auto pairs = counts_->confusion();
    matrix.mutable_counts()->Assign(pairs.begin(), pairs.end());
  }
}

}  // namespace gpupool::engine
