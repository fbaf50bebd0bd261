// Adds the losses of a training spec after a model's output. Pure.
//
// Classification (cross entropy, negative log likelihood) reads one of these:
//   output [batch, classes]           labels int64 [batch]
//   output [batch, T, classes]        labels [batch, T]
//   output [batch, classes, H, W]     labels [batch, H, W]
//   output [batch, classes, D, H, W]  labels [batch, D, H, W]
// Each label is a row below. Ignored labels count nowhere. The loss is 0 when
// all labels are ignored. The other losses compare the output with "target",
// float32 of the output's shape.
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

// Returns the axis of the classes in the output for one example of this rank.
// None when a classification takes no such outputs.
std::optional<int> ClassAxis(int rank);

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
//   weight_sum     float32 []  with class weights: the sum of the rows'
//                              weights, by which loss_sum is divided
// For training.metrics also these, which cover all rows of the batch:
//   answers        int64 [rows]             classification: the class of the
//                                           greatest output
//   scores         float32 [rows, classes]  classification with "auc"
//   outputs        float32                  the others: the output itself
absl::Status AddEvaluation(const v1::TrainingSpec& training, ValueId output,
                           GraphBuilder& builder);

}  // namespace gpupool::engine
