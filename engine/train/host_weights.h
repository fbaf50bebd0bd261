// The weights of a checkpoint in host memory, without a device, for exports.
// Immutable; owns its bytes, to which views refer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"
#include "engine/train/checkpoint.h"

namespace gpupool::engine {

class HostWeights {
 public:
  // Reads the "weights" of the checkpoint, or those in its model file when it
  // has none. Errors as ReadTensors.
  static absl::StatusOr<HostWeights> Read(const std::string& blob_dir,
                                          const Manifest& manifest,
                                          const ModelSource& source);

  // Returns the tensors in the order of the model's inference graph.
  const std::vector<TensorBytes>& tensors() const { return tensors_; }
  std::vector<WeightTensor> ToExport() const;

 private:
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<TensorBytes> tensors_;
};

}  // namespace gpupool::engine
