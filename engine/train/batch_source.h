// Fills the inputs of training programs with batches: when a step asks for one,
// or ahead of the steps on threads of its own (data.loader). Both give the same
// bits.
//
// Thread-safety: belongs to the compute thread. Table, inputs and graph must
// outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/data/prepare/distributed_sampler.h"
#include "engine/data/table.h"
#include "engine/train/fed_inputs.h"
#include "engine/train/input/batch_landing.h"
#include "engine/train/input/batch_loader.h"
#include "engine/train/input/batch_mix.h"

namespace gpupool::v1 {
class DataSpec;
class JobSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Checks the numbers of data.loader. INVALID_ARGUMENT names the field.
absl::Status CheckLoader(const v1::DataSpec& data);

// Returns the batches that the job makes ahead; 0 without a loader.
uint32_t PrefetchedBatches(const v1::DataSpec& data);

struct BatchSourceOptions {
  const Table& table;
  const std::vector<FedInput>& fed;
  const Graph& graph;    // of a program that takes the batches
  LandingLayout layout;  // of a batch's tensors in host memory
  uint64_t seed = 0;
  uint64_t batches_per_epoch = 1;
  std::optional<MixOptions> mix;  // training.mix
};

class BatchSource {
 public:
  explicit BatchSource(BatchSourceOptions options)
      : options_(std::move(options)) {}

  // Makes batches ahead from now on if the job asks for it. The sampler gives
  // the rows of a step, which has `batches_per_step` batches. Fill must then be
  // called for each batch in order, from the sampler's position on.
  // RESOURCE_EXHAUSTED when the host has no memory for the batches.
  absl::Status LoadAhead(const v1::JobSpec& spec, DistributedSampler sampler,
                         uint64_t total_steps);

  // Copies a batch into inputs of a program. `rows` are those of the batch. The
  // program of a shorter batch has smaller inputs than the layout. DATA_LOSS
  // when a mapped file was cut off.
  absl::Status Fill(uint64_t number, absl::Span<const uint32_t> rows,
                    InputBytes input);

 private:
  // Fills inputs from the table. Several threads may call it.
  absl::Status Gather(uint64_t number, absl::Span<const uint32_t> rows,
                      InputBytes input) const;

  const BatchSourceOptions options_;
  std::unique_ptr<BatchLoader>
      loader_;  // null: batches are made when asked for
};

}  // namespace gpupool::engine
