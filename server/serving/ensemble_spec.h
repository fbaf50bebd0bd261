// The description of an ensemble, a model whose requests are answered by other
// models. Some of these take the outputs of others as inputs.
//
// Values without behaviour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Most steps of an ensemble, and most that follow one another.
inline constexpr size_t kMaxEnsembleSteps = 64;
inline constexpr size_t kMaxEnsembleDepth = 32;
// Most tensors: the inputs of the ensemble, and everything that steps give.
inline constexpr size_t kMaxEnsembleTensors = 512;

// An input or output of an ensemble.
struct EnsembleTensor {
  std::string name;
  v1::DataType data_type = v1::DATA_TYPE_UNSPECIFIED;
  // -1: any size. Without the batch dimension if the ensemble has a
  // max_batch_size.
  std::vector<int64_t> dims;
  bool operator==(const EnsembleTensor&) const = default;
};

struct EnsembleStep {
  std::string model;
  uint64_t version = 0;  // 0: the newest that is ready
  // Tensors of the ensemble, by the names that they have in the model.
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::string> outputs;
  bool operator==(const EnsembleStep&) const = default;
};

struct EnsembleSpec {
  std::string model;  // the ensemble's own name
  uint64_t version = 0;
  uint32_t max_batch_size = 0;  // 0: as its steps; dims are then whole shapes
  uint32_t max_in_flight = 0;   // requests that are worked on at a time
  std::vector<EnsembleTensor> inputs;
  std::vector<EnsembleTensor> outputs;
  std::vector<EnsembleStep> steps;
  bool operator==(const EnsembleSpec&) const = default;
};

}  // namespace gpupool::server
