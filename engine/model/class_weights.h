// Losses in which classes have weights, composed of other nodes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/builder.h"

namespace gpupool::v1 {
class BceWithLogits;
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the class_weights of cross_entropy or negative_log_likelihood; empty:
// all 1.
absl::Span<const double> ClassWeights(const v1::TrainingSpec& training);

// Checks the numbers of class_weights and positive_weights without the model.
// INVALID_ARGUMENT names the field, the number and its limit.
absl::Status CheckLossWeights(const v1::TrainingSpec& training);

// Rows of a classification.
struct ClassRows {
  ValueId scores;  // [rows, classes]
  ValueId labels;  // int64 [rows]
  ValueId counts;  // bool [rows], whether a row counts; invalid: all do
};

struct WeightedLosses {
  ValueId losses;   // float32 [rows], times the weights
  ValueId weights;  // float32 [rows], the weights of the rows' labels
};

// Adds the losses of rows that have class weights. Both results are 0 for rows
// that do not count. The formulas are those of
// torch.nn.functional.cross_entropy and nll_loss, whose mean is the sum of
// `losses` divided by the sum of `weights`. INVALID_ARGUMENT when the number of
// weights is not that of the classes.
absl::StatusOr<WeightedLosses> AddWeightedLosses(
    const v1::TrainingSpec& training, const ClassRows& rows,
    GraphBuilder& builder);

// Adds sum(losses) / sum(weights), which is 0 when all weights are.
absl::StatusOr<ValueId> AddWeightedMean(const WeightedLosses& rows,
                                        GraphBuilder& builder);

// Returns the factors of the positive part of bce_with_logits as a constant
// that broadcasts to `output`, a batch of outputs. Invalid without factors.
// INVALID_ARGUMENT when there is neither one factor nor one for each number of
// an example.
absl::StatusOr<ValueId> AddPositiveWeights(const v1::BceWithLogits& loss,
                                           ValueId output,
                                           GraphBuilder& builder);

}  // namespace gpupool::engine
