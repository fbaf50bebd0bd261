// Checks a training job against the facts of its dataset before anything is
// built, so that bad jobs are refused when they are submitted. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/label_facts.h"
#include "engine/data/prepare/split.h"
#include "engine/data/table.h"
#include "engine/train/checkpoint.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::v1 {
class Dataset;
class JobSpec;
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// One of several arrays of a dataset.
struct ArrayFacts {
  std::string name;
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;  // one row's
  LabelFacts labels;           // targets only
};

struct DataFacts {
  uint64_t rows = 0;
  std::vector<int64_t> feature_shape;  // one row's
  LabelFacts labels;
  // The dataset does not exist yet: rows are assumed to fit the model.
  bool assumed = false;
  // Arrays by name. With inputs, feature_shape says nothing; with targets,
  // `labels` says nothing.
  std::vector<ArrayFacts> inputs;
  std::vector<ArrayFacts> targets;
  // Rows of data.validation; 0 without one.
  uint64_t validation_rows = 0;
  // Facts of data.validation; null without one, and when it does not exist yet.
  std::shared_ptr<const DataFacts> validation;
  // Type of features without a name.
  v1::DataType feature_type = v1::DATA_TYPE_UNSPECIFIED;
};

DataFacts FactsOf(const v1::Dataset& dataset);
DataFacts FactsOf(const Table& table);
// Return the facts of the rows that the job takes, with those of
// data.validation if it has one. With data.window these are the windows over
// the rows of a dataset; a table must hold them already (ReadRows).
// INVALID_ARGUMENT when a series is too short, or when the rows of
// data.validation have another form than those of `dataset`.
absl::StatusOr<DataFacts> FactsOf(const v1::JobSpec& spec,
                                  const v1::Dataset& dataset,
                                  const v1::Dataset& validation);
absl::StatusOr<DataFacts> FactsOf(const v1::JobSpec& spec, const Table& table,
                                  const Table* validation);

// Returns the number of devices of the job: spec.devices(), where 0 means 1.
uint32_t DevicesOf(const v1::JobSpec& spec);

// The length of a job in rows and steps.
struct TrainingLength {
  uint64_t training_rows = 0;
  uint64_t held_out_rows = 0;
  uint64_t steps_per_epoch = 0;
  // Rows of an epoch's last step if those are fewer than in the others
  // (data.drop_last: false); else 0.
  uint64_t short_step_rows = 0;
  uint64_t total_steps = 0;
  double base_learning_rate = 0;
};

// Checks dataset, split, batch size, devices, length, loss, learning rate,
// schedule, scaling and the numbers of transforms. INVALID_ARGUMENT names the
// field, its value, the limit and the remedy. The model's layers and the
// optimizer's other numbers are checked when the graph is built.
absl::StatusOr<TrainingLength> CheckTraining(const v1::JobSpec& spec,
                                             const DataFacts& facts);

// Splits the rows of a table by data.held_out. The classes of a stratified
// split are the labels of the leading loss. Windows that share a row of the
// series with held-out ones are on neither side. INVALID_ARGUMENT as
// CheckTraining, and as SplitRows, SplitByClass and CountSplitApart.
absl::StatusOr<Split> SplitTable(const v1::JobSpec& spec, const Table& table);

// Checks that a checkpoint is one of this job, at a position that the job
// passes. INVALID_ARGUMENT names the difference.
absl::Status CheckManifest(const Manifest& manifest,
                           const v1::TrainingSpec& training,
                           const TrainingLength& length);

}  // namespace gpupool::engine
