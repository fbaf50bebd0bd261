// Compiles the programs of a model: train and eval, or infer for every batch
// bucket. Planning on the meta device and running do the same here, which is
// why planned bytes are measured bytes.
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
};

// Of a job on the model `source`, which is what spec.model() names.
// InvalidArgument names the layer or field; Unimplemented what the back end
// lacks.
absl::StatusOr<TrainingPrograms> CompileTraining(const ModelSource& source,
                                                 const v1::JobSpec& spec,
                                                 const DataFacts& facts,
                                                 DeviceBackend* backend);

// Bytes of all programs with their weights, and of the arena they share.
PlannedBytes BytesOf(const TrainingPrograms& programs);
uint64_t ArenaBytesOf(const TrainingPrograms& programs);
// FLOPs of one optimizer step with all its batches.
uint64_t StepFlopsOf(const TrainingPrograms& programs);

struct InferenceBucket {
  int64_t batch = 0;
  Program program;
};

struct InferencePrograms {
  std::vector<InferenceBucket> buckets;  // rising batches
  // Whether all inputs and outputs have a batch dimension. If not there is one
  // bucket, of batch 1.
  bool batched = true;
  WeightLayout layout;
  std::vector<PersistentSpec> persistents;
  std::vector<LayerInfo> layers;
  std::vector<std::string> warnings;
  std::vector<ModelPort> inputs;  // of the first bucket's program
  std::vector<ModelPort> outputs;
  uint64_t parameters = 0;

  // Rows that one run takes at most.
  uint32_t max_batch_size() const {
    return static_cast<uint32_t>(buckets.back().batch);
  }
};

inline constexpr uint32_t kMaxServingBatch = 1024;
inline constexpr uint32_t kDefaultServingBatch = 32;

// 1, 2, 4, ... below `max_batch_size`, then `max_batch_size` itself.
std::vector<int64_t> BatchBuckets(uint32_t max_batch_size);

struct InferenceOptions {
  bool input_scaling = false;
  uint32_t max_batch_size = 1;  // 1 .. kMaxServingBatch
};

// InvalidArgument names the layer, or a max_batch_size out of range.
absl::StatusOr<InferencePrograms> CompileInference(
    const ModelSource& source, const InferenceOptions& options,
    DeviceBackend* backend);

PlannedBytes BytesOf(const InferencePrograms& programs);
uint64_t ArenaBytesOf(const InferencePrograms& programs);

}  // namespace gpupool::engine
