// Compiles the programs that train a model. Planning on the meta device and
// running do the same here, which is why planned bytes are measured bytes.
//
// The results belong to one compute thread; the back end must outlive them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/model_source.h"
#include "engine/plan/report.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"
#include "engine/tensor/shape.h"
#include "engine/train/batch_landing.h"
#include "engine/train/job_check.h"

namespace gpupool::engine {

struct TrainingPrograms {
  TrainingLength length;
  Program train;
  // Of all batches of a step but the last, which `train` takes; absent when a
  // step takes one batch.
  std::optional<Program> accumulate;
  std::optional<Program> eval;  // absent when no rows are held out
  WeightLayout layout;
  std::vector<PersistentSpec> persistents;
  std::vector<std::string> warnings;
  std::string input_name;  // of the features
  Shape output_shape;      // per example
  uint64_t parameters = 0;
  int64_t eval_batch = 0;
  uint32_t batches_per_step = 1;
  LandingLayout landing;  // of the next batch; empty before PlanLanding
};

// Of a job on the model `source`, which is what spec.model() names; those of
// one of its devices, where it has several. `collective` is that of the job's
// ranks; null: the programs are plans, or the job has one device.
// InvalidArgument names the layer or field; Unimplemented what the back end
// lacks.
absl::StatusOr<TrainingPrograms> CompileTraining(
    const ModelSource& source, const v1::JobSpec& spec, const DataFacts& facts,
    DeviceBackend* backend, Collective* collective = nullptr);

// Where the back end copies beside its work, the next batch gets a landing, so
// that it is on the device when its step begins. It gets none where all that
// the job then plans passes `limit_bytes` or its own recompute.budget_bytes (0:
// there is no such limit); a warning says so.
void PlanLanding(const v1::JobSpec& spec, uint64_t limit_bytes,
                 TrainingPrograms& programs);

// Bytes of all programs with their weights, of the arena they share and of the
// landing.
PlannedBytes BytesOf(const TrainingPrograms& programs);
uint64_t ArenaBytesOf(const TrainingPrograms& programs);
// FLOPs of one optimizer step with all its batches, on one device.
uint64_t StepFlopsOf(const TrainingPrograms& programs);

}  // namespace gpupool::engine
