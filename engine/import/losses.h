// The losses of a training spec as nodes behind a model's output. Pure.
//
// Classification (cross entropy, negative log likelihood) reads an output
// [batch, classes] and labels int64 [batch], or [batch, T, classes] and
// labels [batch, T]: then every one of the batch * T counts as a row below.
// Labels that are ignored count nowhere; where all are, the loss is 0. The
// other losses compare with "target", float32 of the output's shape.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/graph/builder.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Whether the loss compares with class labels, not with numbers.
bool IsClassification(const v1::TrainingSpec& training);

// Class labels that do not count.
std::optional<int64_t> IgnoredLabel(const v1::TrainingSpec& training);

// The name in job files: "cross_entropy"; empty when there is no loss.
absl::string_view LossName(const v1::TrainingSpec& training);

// Adds the input "labels" or "target" and the loss, float32 []. Formulas are
// those in job.proto. InvalidArgument when the output's type or shape does
// not go with the loss, or a number of the loss is out of range.
absl::StatusOr<ValueId> AddLoss(const v1::TrainingSpec& training,
                                ValueId output, GraphBuilder& builder);

// Adds the inputs "labels" or "target" and "row_count" (int64 []) and the
// outputs, which count only the first row_count examples of the batch:
//   loss_sum       float32 []  of the rows
//   correct        int64 []    classification: rows whose greatest output is
//                              that of the label
//   top_k_correct  int64 []    with training.top_k: rows whose label is among
//                              the k greatest
//   counted        int64 []    classification, where it is not row_count
absl::Status AddEvaluation(const v1::TrainingSpec& training, ValueId output,
                           GraphBuilder& builder);

}  // namespace gpupool::engine
