// The metrics of one evaluation (TrainingSpec.metrics): collects labels and
// outputs of its batches and reports what follows from them. Belongs to the
// compute thread of a run. The spec must outlive it.
//
// The answers of bce_with_logits are along the same axis as the classes of a
// classification (ClassAxis). A label from 0.5 on is a yes, and so is an output
// above 0. One answer makes two classes, no and yes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "engine/metrics/class_counts.h"
#include "engine/metrics/number_sums.h"
#include "engine/metrics/score_ranks.h"
#include "engine/runtime/executor.h"
#include "engine/tensor/shape.h"
#include "engine/train/programs.h"
#include "engine/train/rank_link.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

// The most classes of a confusion matrix, which is part of every report.
inline constexpr int64_t kMaxConfusionClasses = 100;
// The most scores that `auc` keeps: one for each evaluated label and class,
// in five bytes.
inline constexpr uint64_t kMaxKeptScores = uint64_t{1} << 24;

// Checks that the metrics can be measured on `rows` rows with an output of this
// shape for each. INVALID_ARGUMENT names the metric, the number and the limit.
absl::Status CheckMetricSizes(const v1::TrainingSpec& training,
                              const Shape& output, uint64_t rows);

// Adds the outputs of an evaluation of `rows` rows.
void AddBatch(const Executor& eval, int64_t rows, EvaluationSums& sums);
// Does the same for the losses that do not lead.
void AddOtherLosses(const std::vector<TrainedOutput>& outputs,
                    const Executor& eval, int64_t rows, EvaluationSums& sums);
// Returns the weighted sum of all losses. `leading` is the mean of the leading
// one.
double SumOfLosses(const std::vector<TrainedOutput>& outputs, double leading,
                   const EvaluationSums& sums);
// Sets the loss, and what classification with `training` has besides: accuracy
// and top-k accuracy. When every label is ignored, the loss is 0 and the others
// are absent.
void SetMeans(const v1::TrainingSpec& training, const EvaluationSums& sums,
              v1::Evaluation& evaluation);

class EvaluationMetrics {
 public:
  // `output` is the shape of one example's output.
  EvaluationMetrics(const v1::TrainingSpec& training, const Shape& output);

  // Copies the labels of a batch, which the run of the program overwrites.
  void TakeLabels(const Executor& eval);
  // Adds the outputs of the first `rows` rows, whose labels were taken before
  // the run.
  void AddBatch(const Executor& eval, int64_t rows);
  // Adds what the other ranks have collected; all get the same result.
  absl::Status AddRanks(RankLink& link);
  // Sets metrics and confusion matrix. The evaluation has its loss. A metric
  // that no row defines is left out: auc without two classes among the labels.
  void Report(v1::Evaluation& evaluation) const;

 private:
  void AddClasses(const Executor& eval, int64_t rows);
  void AddAnswers(const Executor& eval, int64_t rows);
  void AddNumbers(const Executor& eval, int64_t rows);
  absl::Status AddScoresOfRanks(RankLink& link);

  const v1::TrainingSpec& training_;
  int64_t per_row_ = 1;  // numbers of an example's output
  int64_t classes_ = 1;  // along their axis
  bool classes_first_ = false;
  std::vector<int64_t> labels_;  // of a batch
  std::vector<float> targets_;
  std::optional<ClassCounts> counts_;
  std::optional<ScoreTable> scores_;
  std::optional<NumberSums> sums_;
};

}  // namespace gpupool::engine
