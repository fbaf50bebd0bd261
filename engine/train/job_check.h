// Checks a training job against the facts of its dataset before anything is
// built, so that bad jobs are refused at submission. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/label_facts.h"
#include "engine/import/layer_spec.h"

namespace gpupool::v1 {
class Dataset;
class JobSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct DataFacts {
  uint64_t rows = 0;
  std::vector<int64_t> feature_shape;  // of one row
  LabelFacts labels;
  // The dataset is not there yet: rows are of the shape that the model takes.
  bool assumed = false;
};

DataFacts FactsOf(const v1::Dataset& dataset);

// On how many devices the job trains: spec.devices(), where 0 means 1.
uint32_t DevicesOf(const v1::JobSpec& spec);

// How long a job trains.
struct TrainingLength {
  uint64_t training_rows = 0;
  uint64_t held_out_rows = 0;
  uint64_t steps_per_epoch = 0;
  uint64_t total_steps = 0;
  double base_learning_rate = 0;
};

// InvalidArgument names the field, its value, the limit and the remedy:
// dataset, split, batch size, devices, length, loss, learning rate, schedule
// and scaling. The model's layers and the optimizer's other numbers are checked
// when the graph is built.
absl::StatusOr<TrainingLength> CheckTraining(const v1::JobSpec& spec,
                                             const DataFacts& facts);

// Whether rows of the dataset can be fed to the model: it has one input, which
// takes as many numbers for an example as a row has.
absl::Status CheckModelInputs(const std::vector<ModelPort>& inputs,
                              const DataFacts& facts);

}  // namespace gpupool::engine
