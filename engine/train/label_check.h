// Checks the labels of a dataset against a job's loss and the shape of the
// model's output: at submission by what is known of the dataset, and once more
// by every label when its rows are there. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/data/table.h"
#include "engine/tensor/shape.h"
#include "engine/train/job_check.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Whether labels and loss go with the output, whose shape is per example:
//   cross_entropy, negative_log_likelihood
//       output [classes] and one class number a row, or output [T, classes]
//       and T class numbers a row; each below `classes`, or ignore_label
//   the others
//       as many numbers a row as the output has, in the same shape where both
//       have several dimensions; bce_with_logits from 0 to 1, kl_divergence
//       from 0 to 1
// InvalidArgument names what disagrees and the remedy.
absl::Status CheckLabels(const v1::TrainingSpec& training,
                         const DataFacts& facts, const Shape& output_shape);

// Whether every class number is one that the output tells apart, or is
// ignored. For labels that passed CheckLabels with the table's own facts;
// those of losses that compare numbers pass. InvalidArgument names the row.
absl::Status CheckLabelValues(const v1::TrainingSpec& training,
                              const Table& table, const Shape& output_shape);

}  // namespace gpupool::engine
