// Adds the losses of a training spec after a model's output. Pure.
//
// Classification (cross entropy, negative log likelihood) reads an output
// [batch, classes] and labels int64 [batch], or an output [batch, T, classes]
// and labels [batch, T]. In the latter case each of the batch * T labels is a
// row below. Ignored labels count nowhere. The loss is 0 when all labels are
// ignored. The other losses compare the output with "target", float32 of the
// output's shape.
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

// Returns whether the loss compares with class labels instead of numbers.
bool IsClassification(const v1::TrainingSpec& training);

// Returns the class label that does not count, if any.
std::optional<int64_t> IgnoredLabel(const v1::TrainingSpec& training);

// Returns the loss's name in job files, as "cross_entropy". Empty without a
// loss.
absl::string_view LossName(const v1::TrainingSpec& training);

// Adds the input "labels" or "target" and the loss, float32 []. job.proto has
// the formulas. INVALID_ARGUMENT when the output's type or shape does not fit
// the loss, or when a number of the loss is out of range.
absl::StatusOr<ValueId> AddLoss(const v1::TrainingSpec& training,
                                ValueId output, GraphBuilder& builder);

// Adds the inputs "labels" or "target" and, unless it is there, "row_count"
// (int64 []), and these outputs, which cover only the first row_count examples
// of the batch:
//   loss_sum       float32 []  sum over the rows
//   correct        int64 []    classification: rows whose greatest output is
//   the
//                              label's
//   top_k_correct  int64 []    with training.top_k: rows whose label is among
//   the
//                              k greatest outputs
//   counted        int64 []    classification, when it differs from row_count
absl::Status AddEvaluation(const v1::TrainingSpec& training, ValueId output,
                           GraphBuilder& builder);

}  // namespace gpupool::engine
