// A checkpoint in host memory that is not on disk yet. It is independent of the
// run and the device, which may continue or be gone.
//
// Thread-safety: any thread, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/checkpoint.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

class CheckpointCopy {
 public:
  // Takes the tensors of `weights`. If these are a view of a store's own
  // memory, that must not change or be freed before Write.
  CheckpointCopy(std::string blob_dir, Manifest manifest, WeightView weights);

  // Returns the name of the first tensor with a number that is not finite, or
  // an empty text.
  std::string FirstNotFinite() const;

  // Returns the bytes of the tensors.
  uint64_t bytes() const;

  // Writes weights, optimizer state and manifest as blobs. When it returns, the
  // checkpoint survives a power cut. RESOURCE_EXHAUSTED when the disk is full;
  // INTERNAL for other errors of it.
  absl::StatusOr<v1::Checkpoint> Write() const;

 private:
  const std::string blob_dir_;
  const Manifest manifest_;  // without the files of the tensors
  const WeightView weights_;
  const std::vector<TensorBytes> model_;
  const std::vector<TensorBytes> optimizer_;
};

}  // namespace gpupool::engine
