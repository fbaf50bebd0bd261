// Compiles the programs that train a model. Planning on the meta device and
// running use the same code, so planned bytes are measured bytes.
//
// The results belong to one compute thread; the back end must outlive them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/loss_terms.h"
#include "engine/model/model_source.h"
#include "engine/plan/report.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"
#include "engine/tensor/shape.h"
#include "engine/train/fed_inputs.h"
#include "engine/train/input/batch_landing.h"
#include "engine/train/input/batch_mix.h"
#include "engine/train/job_check.h"

namespace gpupool::engine {

// A loss of the job, with the output that it reads and its target.
struct TrainedOutput {
  LossTerm term;
  Shape shape;        // of one example
  size_t target = 0;  // position in Table::targets
};

struct TrainingPrograms {
  TrainingLength length;
  Program train;
  // The program for all batches of a step but the last, which `train` takes.
  // Absent when a step has one batch.
  std::optional<Program> accumulate;
  // The program for the last step of an epoch if that has fewer rows. Weights
  // and outputs are those of `train`.
  std::optional<Program> short_step;
  std::optional<Program> eval;  // absent when no rows are held out
  WeightLayout layout;
  std::vector<PersistentSpec> persistents;
  std::vector<std::string> warnings;
  // The inputs that rows of the dataset fill: those of the model, then those
  // for targets.
  std::vector<FedInput> fed;
  std::vector<TrainedOutput> outputs;  // one for each loss
  uint64_t parameters = 0;
  int64_t eval_batch = 0;
  uint32_t batches_per_step = 1;
  LandingLayout landing;  // layout of the next batch; empty before PlanLanding
  std::optional<MixOptions> mix;  // training.mix
};

// Returns the loss of which evaluations report accuracy and metrics. There must
// be one.
const TrainedOutput& LeadingOf(const std::vector<TrainedOutput>& outputs);

// The device that a job's programs are for.
struct TrainingDevice {
  DeviceBackend* backend;
  // The collective of the job's ranks. Null for plans and for jobs on one
  // device.
  Collective* collective = nullptr;
};

// Compiles a job on the model `source`, which spec.model() must name; with
// several devices, the part of one device. INVALID_ARGUMENT names the layer or
// field; UNIMPLEMENTED what the back end lacks.
absl::StatusOr<TrainingPrograms> CompileTraining(const ModelSource& source,
                                                 const v1::JobSpec& spec,
                                                 const DataFacts& facts,
                                                 const TrainingDevice& device);

// Checks the numbers of the dataset that its facts do not tell: every class and
// every number for an int32 input. INVALID_ARGUMENT names the row.
absl::Status CheckNumbers(const TrainingPrograms& programs, const Table& table);

// Returns the layout of a batch's tensors, as the programs of a step take them.
LandingLayout BatchLayout(const TrainingPrograms& programs);

// Returns the host memory of batches that are made ahead (data.loader).
// INVALID_ARGUMENT when they take too much.
absl::StatusOr<uint64_t> PrefetchedBytes(const v1::DataSpec& data,
                                         const TrainingPrograms& programs);

// Plans a landing for the next batch if the back end copies in parallel to its
// work, so that the batch is on the device when its step begins. Plans none,
// and adds a warning, if the job would then exceed `limit_bytes` or its own
// recompute.budget_bytes (0: no such limit).
void PlanLanding(const v1::JobSpec& spec, uint64_t limit_bytes,
                 TrainingPrograms& programs);

// Return the bytes of all programs with their weights, the arena they share and
// the landing; and the arena alone.
PlannedBytes BytesOf(const TrainingPrograms& programs);
uint64_t ArenaBytesOf(const TrainingPrograms& programs);
// Returns the FLOPs of one optimizer step with all its batches on one device.
uint64_t StepFlopsOf(const TrainingPrograms& programs);

}  // namespace gpupool::engine
