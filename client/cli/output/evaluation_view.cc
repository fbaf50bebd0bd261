#include "client/cli/output/evaluation_view.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/counted.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr int kShownClasses = 20;

}  // namespace

std::string EvaluationText(const v1::Evaluation& evaluation) {
  std::string text = absl::StrCat("loss ", FormatLoss(evaluation.loss()));
  if (evaluation.has_accuracy()) {
    absl::StrAppendFormat(&text, ", accuracy %.2f%%",
                          evaluation.accuracy() * 100);
  }
  if (evaluation.has_top_k_accuracy()) {
    absl::StrAppendFormat(&text, ", top-k %.2f%%",
                          evaluation.top_k_accuracy() * 100);
  }
  // The map has no order.
  const std::map<std::string, double> metrics(evaluation.metrics().begin(),
                                              evaluation.metrics().end());
  for (const auto& [name, value] : metrics) {
    absl::StrAppendFormat(&text, ", %s %.4g", name, value);
  }
  return absl::StrCat(text, " (", Counted(evaluation.rows(), "row"), ")");
}

std::string ConfusionText(const v1::ConfusionMatrix& matrix,
                          const std::string& indent) {
  const int classes = static_cast<int>(matrix.classes());
  if (classes == 0 || matrix.counts_size() != classes * classes) return "";
  if (classes > kShownClasses) {
    return absl::StrCat(indent, "confusion matrix of ", classes,
                        " classes: see `gpupool get JOB -o json`\n");
  }
  const uint64_t most =
      *std::max_element(matrix.counts().begin(), matrix.counts().end());
  const int width = static_cast<int>(
      std::max(absl::StrCat(most).size(), absl::StrCat(classes - 1).size()));
  std::string text =
      absl::StrCat(indent,
                   "confusion matrix: a row for each label, a column for each "
                   "prediction\n");
  absl::StrAppendFormat(&text, "%s%*s ", indent, width, "");
  for (int predicted = 0; predicted < classes; ++predicted) {
    absl::StrAppendFormat(&text, " %*d", width, predicted);
  }
  absl::StrAppend(&text, "\n");
  for (int label = 0; label < classes; ++label) {
    absl::StrAppendFormat(&text, "%s%*d:", indent, width, label);
    for (int predicted = 0; predicted < classes; ++predicted) {
      absl::StrAppendFormat(&text, " %*d", width,
                            matrix.counts(label * classes + predicted));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace gpupool::client
