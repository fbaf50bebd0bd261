// The mixing of a batch of training rows with a permuted copy of itself
// (training.mix): mixup (Zhang et al., ICLR 2018) and cutmix (Yun et al., ICCV
// 2019). Pure.
//
// How a batch is mixed is a pure function of the seed and the number of the
// batch, so a resumed job and threads that make batches ahead repeat it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/transform/image.h"
#include "engine/model/layer_spec.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

// Checks the numbers of training.mix, as CheckMixNumbers, and which of them are
// set together. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckMix(const v1::TrainingSpec& training);

struct MixOptions {
  v1::Mix mix;
  uint64_t seed = 0;
  ImageShape image;  // of a row, with cutmix only
};

// Returns how the job mixes; nothing when it does not. Its numbers must have
// passed CheckMix. INVALID_ARGUMENT names the input of the model that cannot be
// mixed.
absl::StatusOr<std::optional<MixOptions>> MixOptionsOf(
    const v1::TrainingSpec& training, const std::vector<ModelPort>& inputs);

// The mixing of the rows of one batch.
struct BatchMix {
  // Share of a row and of its targets in the mixture.
  float lambda = 1;
  // Cutmix: the part of each image that is replaced. Else rows are weighted
  // sums.
  std::optional<ImageBox> box;
  ImageShape image;  // with a box
  // The position of the row that each row is mixed with: a permutation.
  std::vector<uint32_t> partners;
};

// Draws the mixing of the batch with this number, which has `rows` rows.
BatchMix DrawMix(const MixOptions& options, uint64_t batch, size_t rows);

// Mixes the rows in place: as many rows of equal width as the mix has partners.
void MixRows(const BatchMix& mix, absl::Span<float> rows);

}  // namespace gpupool::engine
