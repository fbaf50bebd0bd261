// Checks the labels of a dataset against a job's loss and the shape of the
// model's output: when the job is submitted by the facts of the dataset, and
// again by every label when its rows are read. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/data/column.h"
#include "engine/tensor/shape.h"
#include "engine/train/job_check.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Checks that labels and loss fit the output, whose shape is that of one
// example:
//   cross_entropy, negative_log_likelihood
//       output [classes] and one class number for each row, output
//       [T, classes] and T class numbers, or output [classes, H, W] or
//       [classes, D, H, W] and a class number for each position; each is below
//       `classes`, or ignore_label
//   the others
//       as many numbers for each row as the output has, in the same shape if
//       both have several dimensions; from 0 to 1 for bce_with_logits and
//       kl_divergence
// INVALID_ARGUMENT names the difference and the remedy.
absl::Status CheckLabels(const v1::TrainingSpec& training,
                         const DataFacts& facts, const Shape& output_shape);

// Checks that every class number is one that the output distinguishes, or is
// ignored, and that probabilities whose range is not known are from 0 to 1. For
// labels that passed CheckLabels with the column's own facts. Other numbers
// pass. INVALID_ARGUMENT names the row, or the range.
absl::Status CheckLabelValues(const v1::TrainingSpec& training,
                              const Column& labels, const Shape& output_shape);

}  // namespace gpupool::engine
