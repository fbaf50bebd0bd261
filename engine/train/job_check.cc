#include "engine/train/job_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/job_limits.h"
#include "engine/base/quoted_names.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/dataset_reader.h"
#include "engine/data/prepare/scaling.h"
#include "engine/data/prepare/window.h"
#include "engine/data/row_form.h"
#include "engine/data/transform/transform_check.h"
#include "engine/model/class_weights.h"
#include "engine/model/loss_terms.h"
#include "engine/model/losses.h"
#include "engine/model/lr_schedule.h"
#include "engine/model/metric_names.h"
#include "engine/model/optimizer_options.h"
#include "engine/model/precision.h"
#include "engine/train/batch_source.h"
#include "engine/train/fed_inputs.h"
#include "engine/train/input/batch_mix.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

// Returns the rows of a step; the product of two 32-bit numbers fits 64 bits.
uint64_t RowsPerStep(const v1::TrainingSpec& training) {
  return uint64_t{training.batch_size()} *
         std::max(training.accumulate_batches(), 1u);
}

absl::Status CheckBatch(const v1::TrainingSpec& training,
                        uint64_t training_rows) {
  const uint64_t batch_size = training.batch_size();
  if (batch_size == 0) {
    return absl::InvalidArgumentError(
        "training.batch_size is missing; it must be at least 1");
  }
  const uint64_t step_rows = RowsPerStep(training);
  if (batch_size <= training_rows && step_rows > training_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "accumulate_batches ", training.accumulate_batches(), " of batch_size ",
        batch_size, " need ", step_rows, " rows for a step, but there are ",
        training_rows, " training rows; lower one of the two"));
  }
  if (batch_size > training_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch_size ", batch_size, " is larger than the ", training_rows,
        " training rows; lower it to at most ", training_rows));
  }
  return absl::OkStatus();
}

// Checks that every device gets equally many rows of a batch.
absl::Status CheckDevices(const v1::JobSpec& spec) {
  const uint32_t devices = DevicesOf(spec);
  if (devices > uint32_t{kMaxJobDevices}) {
    return absl::InvalidArgumentError(absl::StrCat("devices is ", devices,
                                                   "; at most ", kMaxJobDevices,
                                                   " can train one job"));
  }
  const uint32_t batch_size = spec.training().batch_size();
  if (batch_size % devices == 0) return absl::OkStatus();
  // The error names the multiples next to the batch size.
  const uint32_t below = batch_size / devices * devices;
  return absl::InvalidArgumentError(absl::StrCat(
      "training.batch_size ", batch_size, " cannot be shared equally by ",
      devices, " devices; make it a multiple of ", devices, ", such as ",
      below > 0 ? absl::StrCat(below, " or ") : "", below + devices));
}

// Returns the rows of a shorter last step of an epoch; 0 without one.
absl::StatusOr<uint64_t> ShortStepRows(const v1::JobSpec& spec,
                                       uint64_t training_rows) {
  if (!spec.data().has_drop_last() || spec.data().drop_last()) return 0;
  const v1::TrainingSpec& training = spec.training();
  if (training.accumulate_batches() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.drop_last is false, and accumulate_batches is ",
        training.accumulate_batches(), "; a step of several batches takes ",
        "whole ones only, so leave one of the two out"));
  }
  const uint64_t rows = training_rows % training.batch_size();
  const uint32_t devices = DevicesOf(spec);
  if (rows % devices == 0) return rows;
  return absl::InvalidArgumentError(absl::StrCat(
      "data.drop_last is false, and the last batch of an epoch has ", rows,
      " of the ", training_rows, " training rows, which cannot be shared ",
      "equally by ", devices,
      " devices; leave data.drop_last out, or hold out ",
      "rows so that a multiple of ", devices, " is left"));
}

absl::StatusOr<uint64_t> TotalSteps(const v1::TrainingSpec& training,
                                    uint64_t steps_per_epoch) {
  // The product of two 32-bit numbers fits 64 bits.
  const uint64_t steps = training.has_epochs()
                             ? training.epochs() * steps_per_epoch
                             : training.steps();
  if (steps == 0) {
    return absl::InvalidArgumentError(
        "training has no length; set epochs or steps to at least 1");
  }
  return steps;
}

absl::Status CheckLoss(const LossTerm& term) {
  const v1::TrainingSpec& training = term.training;
  if (training.loss_case() == v1::TrainingSpec::LOSS_NOT_SET) {
    return absl::InvalidArgumentError(
        absl::StrCat(term.field,
                     " has no loss; choose cross_entropy, mean_squared_error, "
                     "bce_with_logits, l1, huber, negative_log_likelihood or "
                     "kl_divergence"));
  }
  const double smoothing = training.cross_entropy().label_smoothing();
  if (!(smoothing >= 0 && smoothing < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cross_entropy.label_smoothing is ", smoothing,
                     "; it must be at least 0 and below 1"));
  }
  const v1::Huber& huber = training.huber();
  if (huber.has_delta() &&
      !(huber.delta() > 0 && std::isfinite(huber.delta()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("huber.delta is ", huber.delta(), "; it must be above 0"));
  }
  return CheckLossWeights(training);
}

absl::Status CheckLosses(const v1::TrainingSpec& training) {
  RETURN_IF_ERROR(CheckLossTerms(training));
  for (const LossTerm& term : LossTermsOf(training)) {
    RETURN_IF_ERROR(CheckLoss(term));
  }
  return absl::OkStatus();
}

// Returns the field that needs evaluations while the job runs; empty when none
// does.
absl::string_view NeedsEvaluations(const v1::TrainingSpec& training) {
  if (training.schedule().has_plateau()) return "schedule.plateau";
  if (training.has_early_stopping()) return "early_stopping";
  if (training.keep_best_checkpoints() > 0) return "keep_best_checkpoints";
  return "";
}

absl::Status CheckEvaluations(const v1::TrainingSpec& training,
                              const TrainingLength& length) {
  for (const LossTerm& term : LossTermsOf(training)) {
    RETURN_IF_ERROR(CheckMetricNames(term.training));
  }
  constexpr char kRemedy[] =
      "but no rows are held out; set data.held_out or data.validation";
  if (!training.metrics().empty() && length.held_out_rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.metrics are those of held-out rows, ", kRemedy));
  }
  const absl::string_view who = NeedsEvaluations(training);
  if (who.empty()) return absl::OkStatus();
  if (length.held_out_rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "training.", who, " goes by the held-out loss, ", kRemedy));
  }
  if (training.evaluate_every_steps() > 0 ||
      training.evaluate_every_epochs() > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "training.", who,
      " goes by the held-out loss, which is only measured at "
      "the end; set evaluate_every_epochs or evaluate_every_steps"));
}

// Returns the numbers of trained and evaluated rows.
absl::StatusOr<SplitSizes> SizesOf(const v1::DataSpec& data,
                                   const DataFacts& facts) {
  if (data.validation().empty()) {
    return CountSplitApart(data, facts.rows);
  }
  if (data.held_out().rule_case() != v1::HeldOut::RULE_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.held_out and data.validation are both set; evaluate either ",
        "rows of \"", data.dataset(), "\" or \"", data.validation(), "\""));
  }
  if (facts.validation_rows > 0) {
    return SplitSizes{facts.rows, facts.validation_rows};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data.validation: dataset \"", data.validation(), "\" has no rows"));
}

LossTerm LeadingLoss(const v1::TrainingSpec& training) {
  std::vector<LossTerm> terms = LossTermsOf(training);
  return *std::find_if(terms.begin(), terms.end(),
                       [](const LossTerm& term) { return term.leads; });
}

std::string FieldOf(const v1::HeldOut& rule) {
  return absl::StrCat("data.held_out.", rule.has_fold() ? "fold" : "fraction",
                      ".stratified");
}

// Returns the position of the target that has the classes of a stratified
// split.
absl::StatusOr<size_t> FindClasses(const v1::JobSpec& spec, DataFacts facts) {
  const std::string field = FieldOf(spec.data().held_out());
  const LossTerm loss = LeadingLoss(spec.training());
  if (!IsClassification(loss.training) &&
      !loss.training.has_bce_with_logits()) {
    return Refuse(field, " keeps the shares of classes, but ",
                  LossName(loss.training),
                  " compares numbers; leave stratified out");
  }
  ASSIGN_OR_RETURN(const size_t target,
                   FindTarget(loss.field, loss.target, facts));
  const LabelFacts& labels = facts.labels;
  if (facts.assumed) return target;
  if (labels.numbers() != 1) {
    return Refuse(field, " needs one class number a row, but the labels have ",
                  "the shape [", absl::StrJoin(labels.shape, ","),
                  "]; leave stratified out");
  }
  if (labels.class_count() > 0) return target;
  return Refuse(field, " needs labels that are class numbers from 0, but the ",
                "dataset's ",
                labels.whole ? absl::StrCat("go from ", labels.minimum, " to ",
                                            labels.maximum)
                             : "are not all whole",
                "; leave stratified out");
}

// Checks that a stratified split has classes.
absl::Status CheckStratified(const v1::JobSpec& spec, const DataFacts& facts) {
  if (!IsStratified(spec.data().held_out())) return absl::OkStatus();
  return FindClasses(spec, facts).status();
}

// Returns the facts of the target that data.window.predict_input stands for.
absl::StatusOr<LabelFacts> InputAsLabels(const DataFacts& facts) {
  if (facts.inputs.size() > 1) {
    return Refuse("data.window.predict_input is for datasets with one input, ",
                  "but this one has ", QuotedNames(facts.inputs),
                  "; leave it out, and upload the targets");
  }
  const bool named = !facts.inputs.empty();
  const v1::DataType type = named ? facts.inputs[0].type : facts.feature_type;
  // The range is not known without reading the numbers.
  return LabelFacts{named ? facts.inputs[0].shape : facts.feature_shape,
                    !IsFloating(FromProto(type)),
                    std::numeric_limits<double>::quiet_NaN(),
                    std::numeric_limits<double>::quiet_NaN()};
}

// Bounds the time in which a job that begins reads its windows for
// data.scaling.
absl::Status CheckScaledWindows(const v1::DataSpec& data,
                                const DataFacts& facts, uint64_t rows) {
  const v1::Scaling& scaling = data.scaling();
  const bool reads = scaling.has_standardize() || scaling.has_min_max();
  if (!data.has_window() || !reads || facts.assumed) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t width,
                   CheckedElementCount(facts.feature_shape));
  if (rows <= kMaxScaledNumbers / width) return absl::OkStatus();
  return Refuse("data.scaling would read ", rows, " windows of ", width,
                " numbers before the first step; at most ", kMaxScaledNumbers,
                " numbers are allowed. Scale the series before its upload, or ",
                "raise data.window.stride");
}

// Returns the facts of the rows that the job takes: the rows of the dataset, or
// the windows over them. Leaves a dataset that does not exist yet as it is.
absl::StatusOr<DataFacts> WindowFacts(const v1::DataSpec& data,
                                      DataFacts facts) {
  if (!data.has_window() || facts.assumed) return facts;
  const v1::Window& window = data.window();
  ASSIGN_OR_RETURN(facts.rows, CountWindows(window, facts.rows));
  if (window.predict_input()) {
    ASSIGN_OR_RETURN(facts.labels, InputAsLabels(facts));
    facts.targets.clear();
  }
  facts.feature_shape = InputWindowShape(window, facts.feature_shape);
  for (ArrayFacts& input : facts.inputs) {
    input.shape = InputWindowShape(window, input.shape);
  }
  facts.labels.shape = TargetWindowShape(window, facts.labels.shape);
  for (ArrayFacts& target : facts.targets) {
    target.shape = TargetWindowShape(window, target.shape);
    target.labels.shape = TargetWindowShape(window, target.labels.shape);
  }
  return facts;
}

}  // namespace

uint32_t DevicesOf(const v1::JobSpec& spec) {
  return std::max(spec.devices(), 1u);
}

DataFacts FactsOf(const v1::Dataset& dataset) {
  DataFacts facts = {
      dataset.rows(),
      {dataset.feature_shape().begin(), dataset.feature_shape().end()},
      LabelFactsOf(dataset),
      dataset.files().empty() && dataset.feature_shape().empty() &&
          dataset.inputs().empty()};
  const auto add = [](const auto& arrays, std::vector<ArrayFacts>& to) {
    for (const v1::DatasetArray& array : arrays) {
      to.push_back({array.name(),
                    array.data_type(),
                    {array.shape().begin(), array.shape().end()},
                    FromProto(array.facts())});
    }
  };
  facts.feature_type = dataset.feature_type();
  add(dataset.inputs(), facts.inputs);
  add(dataset.targets(), facts.targets);
  return facts;
}

DataFacts FactsOf(const Table& table) {
  DataFacts facts = {table.rows, table.features().shape, table.labels().facts};
  const auto add = [](const std::vector<Column>& columns,
                      std::vector<ArrayFacts>& to) {
    if (columns.front().name.empty()) return;
    for (const Column& column : columns) {
      to.push_back(
          {column.name, ToProto(column.stored), column.shape, column.facts});
    }
  };
  facts.feature_type = ToProto(table.features().stored);
  add(table.inputs, facts.inputs);
  add(table.targets, facts.targets);
  return facts;
}

absl::StatusOr<DataFacts> FactsOf(const v1::JobSpec& spec,
                                  const v1::Dataset& dataset,
                                  const v1::Dataset& validation) {
  RETURN_IF_ERROR(CheckWindow(spec.data()));
  ASSIGN_OR_RETURN(DataFacts facts, WindowFacts(spec.data(), FactsOf(dataset)));
  if (spec.data().validation().empty()) return facts;
  absl::StatusOr<DataFacts> evaluated =
      WindowFacts(spec.data(), FactsOf(validation));
  if (!evaluated.ok()) return AtPlace("data.validation", evaluated.status());
  facts.validation_rows = evaluated->rows;
  if (evaluated->assumed) return facts;
  facts.validation = std::make_shared<DataFacts>(*std::move(evaluated));
  if (!facts.assumed) {
    // First, because other categories may make one-hot rows longer.
    RETURN_IF_ERROR(CheckSameCategories(dataset, validation));
    RETURN_IF_ERROR(CheckSameForm(FormOf(dataset), FormOf(validation)));
    RETURN_IF_ERROR(CheckSameOrder(dataset, validation));
  }
  return facts;
}

absl::StatusOr<DataFacts> FactsOf(const v1::JobSpec& spec, const Table& table,
                                  const Table* validation) {
  DataFacts facts = FactsOf(table);
  if (validation == nullptr) return facts;
  const v1::DataSpec& data = spec.data();
  RETURN_IF_ERROR(CheckSameForm(FormOf(data.dataset(), table),
                                FormOf(data.validation(), *validation)));
  facts.validation_rows = validation->rows;
  facts.validation = std::make_shared<DataFacts>(FactsOf(*validation));
  return facts;
}

absl::StatusOr<TrainingLength> CheckTraining(const v1::JobSpec& spec,
                                             const DataFacts& facts) {
  const v1::TrainingSpec& training = spec.training();
  ASSIGN_OR_RETURN(const SplitSizes sizes, SizesOf(spec.data(), facts));
  RETURN_IF_ERROR(CheckBatch(training, sizes.training));
  RETURN_IF_ERROR(CheckDevices(spec));
  TrainingLength length;
  length.training_rows = sizes.training;
  length.held_out_rows = sizes.held_out;
  // By default, rows that fill no whole step wait for the next epoch.
  length.steps_per_epoch = sizes.training / RowsPerStep(training);
  // The rows of a dataset that does not exist yet are not known.
  ASSIGN_OR_RETURN(length.short_step_rows,
                   ShortStepRows(spec, facts.assumed ? 0 : sizes.training));
  if (length.short_step_rows > 0) ++length.steps_per_epoch;
  ASSIGN_OR_RETURN(length.total_steps,
                   TotalSteps(training, length.steps_per_epoch));
  RETURN_IF_ERROR(CheckLosses(training));
  RETURN_IF_ERROR(CheckMix(training));
  RETURN_IF_ERROR(CheckWindow(spec.data()));
  RETURN_IF_ERROR(CheckStratified(spec, facts));
  RETURN_IF_ERROR(ConvertLossScaling(training).status());
  ASSIGN_OR_RETURN(length.base_learning_rate, BaseLearningRate(training));
  RETURN_IF_ERROR(ValidateSchedule(
      training.schedule(), length.base_learning_rate, length.total_steps));
  RETURN_IF_ERROR(ValidateScaling(spec.data().scaling()));
  RETURN_IF_ERROR(CheckScaledWindows(spec.data(), facts, sizes.training));
  RETURN_IF_ERROR(CheckTransforms(spec.data()));
  RETURN_IF_ERROR(CheckLoader(spec.data()));
  RETURN_IF_ERROR(CheckEvaluations(training, length));
  return length;
}

absl::StatusOr<Split> SplitTable(const v1::JobSpec& spec, const Table& table) {
  const v1::HeldOut& rule = spec.data().held_out();
  ASSIGN_OR_RETURN(const SplitSizes sizes,
                   CountSplitApart(spec.data(), table.rows));
  Split split;
  if (IsStratified(rule)) {
    ASSIGN_OR_RETURN(const size_t target, FindClasses(spec, FactsOf(table)));
    ASSIGN_OR_RETURN(split, SplitByClass(rule, table.targets[target]));
  } else {
    ASSIGN_OR_RETURN(split, SplitRows(rule, table.rows));
  }
  // The last windows may share rows with those that are held out.
  split.training.resize(sizes.training);
  return split;
}

absl::Status CheckManifest(const Manifest& manifest,
                           const v1::TrainingSpec& training,
                           const TrainingLength& length) {
  auto differs = [](absl::string_view what, auto saved, auto wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint was made with ", what, " ", saved,
                     ", the job has ", wanted, "; resume with the same job"));
  };
  if (manifest.seed != training.seed()) {
    return differs("seed", manifest.seed, training.seed());
  }
  if (manifest.batch_size != training.batch_size()) {
    return differs("batch_size", manifest.batch_size, training.batch_size());
  }
  if (manifest.step > length.total_steps) {
    return differs("step", manifest.step, length.total_steps);
  }
  // With another number of steps the run could not repeat the same batches.
  if (manifest.epoch != manifest.step / length.steps_per_epoch ||
      manifest.batch_in_epoch != manifest.step % length.steps_per_epoch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the checkpoint's position, epoch ", manifest.epoch, " batch ",
        manifest.batch_in_epoch, ", is not that of step ", manifest.step,
        " with ", length.steps_per_epoch,
        " steps an epoch; the dataset or its split is another one"));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
