#include "engine/train/job_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/data/scaling.h"
#include "engine/data/split.h"
#include "engine/data/table.h"
#include "engine/train/lr_schedule.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

absl::Status CheckBatch(uint32_t batch_size, uint64_t training_rows) {
  if (batch_size == 0) {
    return absl::InvalidArgumentError(
        "training.batch_size is missing; it must be at least 1");
  }
  if (batch_size > training_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch_size ", batch_size, " is larger than the ", training_rows,
        " training rows; lower it to at most ", training_rows));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TotalSteps(const v1::TrainingSpec& training,
                                    uint64_t steps_per_epoch) {
  // 32 bits times 32 bits: no overflow.
  const uint64_t steps = training.has_epochs()
                             ? training.epochs() * steps_per_epoch
                             : training.steps();
  if (steps == 0) {
    return absl::InvalidArgumentError(
        "training has no length; set epochs or steps to at least 1");
  }
  return steps;
}

absl::Status CheckLoss(const v1::TrainingSpec& training) {
  if (training.loss_case() == v1::TrainingSpec::LOSS_NOT_SET) {
    return absl::InvalidArgumentError(
        "training has no loss; choose cross_entropy or mean_squared_error");
  }
  const double smoothing = training.cross_entropy().label_smoothing();
  if (!(smoothing >= 0 && smoothing < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cross_entropy.label_smoothing is ", smoothing,
                     "; it must be at least 0 and below 1"));
  }
  return absl::OkStatus();
}

}  // namespace

DataFacts FactsOf(const v1::Dataset& dataset) {
  return {dataset.rows(),
          {dataset.feature_shape().begin(), dataset.feature_shape().end()},
          dataset.classes(),
          dataset.files().empty() && dataset.feature_shape().empty()};
}

absl::StatusOr<TrainingLength> CheckTraining(const v1::JobSpec& spec,
                                             const DataFacts& facts) {
  const v1::TrainingSpec& training = spec.training();
  ASSIGN_OR_RETURN(const SplitSizes sizes,
                   CountSplit(spec.data().held_out(), facts.rows));
  RETURN_IF_ERROR(CheckBatch(training.batch_size(), sizes.training));
  TrainingLength length;
  length.training_rows = sizes.training;
  length.held_out_rows = sizes.held_out;
  length.steps_per_epoch = sizes.training / training.batch_size();
  ASSIGN_OR_RETURN(length.total_steps,
                   TotalSteps(training, length.steps_per_epoch));
  RETURN_IF_ERROR(CheckLoss(training));
  ASSIGN_OR_RETURN(length.base_learning_rate, BaseLearningRate(training));
  RETURN_IF_ERROR(ValidateSchedule(
      training.schedule(), length.base_learning_rate, length.total_steps));
  RETURN_IF_ERROR(ValidateScaling(spec.data().scaling()));
  return length;
}

absl::Status CheckModelInputs(const std::vector<ModelPort>& inputs,
                              const DataFacts& facts) {
  if (inputs.size() != 1 || !inputs[0].batched) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model cannot be trained on rows of a dataset: it has ",
        inputs.size(), " inputs (",
        absl::StrJoin(inputs, ", ",
                      [](std::string* out, const ModelPort& input) {
                        absl::StrAppend(out, input.name,
                                        input.batched ? "" : ", no batch");
                      }),
        "), but training needs one with a batch dimension in front"));
  }
  const ModelPort& input = inputs[0];
  const bool numbers = input.dtype == DType::kFloat32 ||
                       input.dtype == DType::kInt32 ||
                       input.dtype == DType::kInt64;
  if (!numbers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model's input '", input.name, "' is ", DTypeName(input.dtype),
        "; training feeds float32, int32 and int64 inputs"));
  }
  if (facts.assumed) return absl::OkStatus();
  const auto wanted = static_cast<uint64_t>(input.example().elements());
  ASSIGN_OR_RETURN(const uint64_t row_count,
                   CheckedElementCount(facts.feature_shape));
  if (wanted == row_count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the model's input ", input.example().ToString(), " takes ", wanted,
      " numbers, but a row of the dataset has ", row_count, " (shape [",
      absl::StrJoin(facts.feature_shape, ","), "]); make them agree"));
}

absl::Status CheckLabels(const v1::TrainingSpec& training,
                         const DataFacts& facts, const Shape& output_shape) {
  if (training.has_mean_squared_error()) {
    if (output_shape.elements() == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "mean_squared_error compares with one label a row, but the model's "
        "output is ",
        output_shape.ToString(), "; end the model with dense units 1"));
  }
  if (facts.classes == 0) {
    return absl::InvalidArgumentError(
        "cross_entropy needs whole-number labels from 0, but the dataset has "
        "others; choose another label column or mean_squared_error");
  }
  if (output_shape.elements() < int64_t{facts.classes}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the dataset has labels 0 to ", facts.classes - 1,
        ", but the model's output ", output_shape.ToString(), " tells only ",
        output_shape.elements(),
        " classes apart; end the model with dense units ", facts.classes));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
