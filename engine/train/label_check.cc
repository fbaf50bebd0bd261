#include "engine/train/label_check.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/data/row_form.h"
#include "engine/model/losses.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

// Returns "one label a row" or "labels of shape [3,2] a row".
std::string LabelText(const LabelFacts& labels) {
  if (labels.shape.empty()) return "one label a row";
  return absl::StrCat("labels of shape [", absl::StrJoin(labels.shape, ","),
                      "] a row");
}

// Checks that the model distinguishes the largest class number.
absl::Status CheckClassRange(const v1::TrainingSpec& training,
                             const LabelFacts& labels, int64_t classes) {
  const std::optional<int64_t> ignored = IgnoredLabel(training);
  // An ignored minimum or maximum says nothing about the other labels.
  const auto counts = [&](double label) {
    return !ignored.has_value() || label != static_cast<double>(*ignored);
  };
  if (labels.minimum < 0 && counts(labels.minimum)) {
    return Refuse(LossName(training), " takes class numbers from 0, but the ",
                  "dataset has label ", labels.minimum,
                  "; change the labels, or set ignore_label: ", labels.minimum,
                  " if rows with it do not count");
  }
  if (labels.maximum >= static_cast<double>(classes) &&
      counts(labels.maximum)) {
    const auto largest = static_cast<int64_t>(labels.maximum);
    return Refuse("the dataset has labels 0 to ", largest,
                  ", but the model's output tells only ", classes,
                  " classes apart; end the model with dense units ",
                  largest + 1,
                  labels.shape.empty()
                      ? std::string()
                      : absl::StrCat(", or set vocabulary: ", largest + 1,
                                     " of a named language model"));
  }
  return absl::OkStatus();
}

// Checks labels for losses that compare class numbers.
absl::Status CheckClasses(const v1::TrainingSpec& training,
                          const DataFacts& facts, const Shape& output) {
  const absl::string_view loss = LossName(training);
  const std::optional<int> axis = ClassAxis(output.rank());
  if (!axis.has_value()) {
    return Refuse(loss, " needs an output [classes], [positions, classes] or ",
                  "[classes, height, width], but the model's is ",
                  output.ToString(), "; end the model with flatten and dense");
  }
  const int64_t classes = output[*axis];
  if (int64_t{training.top_k()} > classes) {
    return Refuse("training.top_k is ", training.top_k(),
                  ", but the model tells only ", classes, " classes apart");
  }
  if (facts.assumed) return absl::OkStatus();
  std::vector<int64_t> positions(output.dims().begin(), output.dims().end());
  positions.erase(positions.begin() + *axis);
  if (!ShapesAgree(facts.labels.shape, positions)) {
    return Refuse(
        loss, " with the model's output ", output.ToString(), " compares with ",
        output.rank() == 1
            ? "one class number a row"
            : absl::StrCat(output.elements() / classes, " class numbers a row"),
        ", but the dataset has ", LabelText(facts.labels),
        output.rank() == 1 ? "; choose one label column, or a loss of numbers"
        : output.rank() == 2
            ? "; make them agree"
            : "; end the model with flatten and dense, or give each position "
              "a label");
  }
  if (!facts.labels.whole) {
    return Refuse(loss,
                  " needs whole-number labels from 0, but the dataset has "
                  "others; choose another label column or "
                  "mean_squared_error");
  }
  return CheckClassRange(training, facts.labels, classes);
}

bool ComparesProbabilities(const v1::TrainingSpec& training) {
  return training.has_bce_with_logits() || training.has_kl_divergence();
}

absl::Status CheckProbabilities(const v1::TrainingSpec& training,
                                const LabelFacts& labels) {
  // An unknown range passes. CheckLabelValues reads the numbers.
  if (!(labels.minimum < 0 || labels.maximum > 1)) return absl::OkStatus();
  return Refuse(LossName(training),
                " needs labels from 0 to 1, but the dataset's go from ",
                labels.minimum, " to ", labels.maximum,
                training.has_bce_with_logits()
                    ? "; choose cross_entropy for class numbers"
                    : "; upload probabilities");
}

// Checks labels for losses that compare numbers.
absl::Status CheckNumbers(const v1::TrainingSpec& training,
                          const DataFacts& facts, const Shape& output) {
  if (facts.assumed) return absl::OkStatus();
  const absl::string_view loss = LossName(training);
  const LabelFacts& labels = facts.labels;
  if (!ShapesAgree(labels.shape, output.dims())) {
    return Refuse(loss, " compares number with number: the model's output is ",
                  output.ToString(), ", but the dataset has ",
                  LabelText(labels), "; end the model with dense units ",
                  labels.numbers(), ", or upload labels of the output's shape");
  }
  return ComparesProbabilities(training) ? CheckProbabilities(training, labels)
                                         : absl::OkStatus();
}

}  // namespace

absl::Status CheckLabels(const v1::TrainingSpec& training,
                         const DataFacts& facts, const Shape& output_shape) {
  return IsClassification(training)
             ? CheckClasses(training, facts, output_shape)
             : CheckNumbers(training, facts, output_shape);
}

absl::Status CheckLabelValues(const v1::TrainingSpec& training,
                              const Column& labels, const Shape& output_shape) {
  if (ComparesProbabilities(training) && std::isnan(labels.facts.minimum)) {
    return CheckProbabilities(training, SummarizeLabels(labels));
  }
  if (!IsClassification(training)) return absl::OkStatus();
  const int64_t classes = output_shape[*ClassAxis(output_shape.rank())];
  const std::optional<int64_t> ignored = IgnoredLabel(training);
  absl::Status checked;
  ConvertOnce(labels, [&](uint64_t first, absl::Span<const int64_t> chunk) {
    for (size_t i = 0; i < chunk.size(); ++i) {
      const int64_t label = chunk[i];
      if ((label >= 0 && label < classes) || label == ignored) continue;
      checked = Refuse(
          labels.row_name(), " ", (first + i) / labels.width,
          " of the dataset, counted from 0, has label ", label,
          ", but the model tells only classes 0 to ", classes - 1, " apart",
          ignored.has_value() ? absl::StrCat(" and ", *ignored, " is ignored")
                              : "",
          "; mend the row or the model");
      return false;
    }
    return true;
  });
  return checked;
}

}  // namespace gpupool::engine
