// A checkpoint that is not on disk yet: what it will hold, in host memory. It
// knows nothing of the run or of the device, which may go on or be gone.
//
// Thread-safety: one thread at a time, any.
#pragma once

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
  // `weights` hold the tensors; where they are a view of a store's own memory,
  // that must neither change nor go before Write.
  CheckpointCopy(std::string blob_dir, Manifest manifest, WeightView weights);

  // The name of the first tensor with a number that is not finite; else empty.
  std::string FirstNotFinite() const;

  // Writes weights, optimizer state and manifest as blobs. When it returns, the
  // checkpoint survives a power cut. ResourceExhausted when the disk is full;
  // Internal for its other errors.
  absl::StatusOr<v1::Checkpoint> Write() const;

 private:
  const std::string blob_dir_;
  const Manifest manifest_;  // without the files of the tensors
  const WeightView weights_;
  const std::vector<TensorBytes> model_;
  const std::vector<TensorBytes> optimizer_;
};

}  // namespace gpupool::engine
