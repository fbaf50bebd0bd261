// A model of the fuzzer, imported with random inputs: shapes for sequences and
// inputs whose numbers the import needs are given, as a client would.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/import/onnx/file/host_tensor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/model/layer_spec.h"

namespace gpupool::engine::fuzz {

// The size of dimensions without one.
inline constexpr int64_t kBatch = 2;

using HostTensors = std::map<std::string, onnx_import::HostTensor>;

struct FuzzedModel {
  std::shared_ptr<const onnx_import::OnnxFile> file;
  ModelGraph model;    // every port is an output of the graph
  HostTensors inputs;  // by port
};

// Imports the model. Inputs are random numbers that the seed, their names and
// their types determine. Returns the import's error. INTERNAL never means that
// a model was refused.
absl::StatusOr<FuzzedModel> ImportFuzzed(const onnx::ModelProto& proto,
                                         uint64_t seed);

}  // namespace gpupool::engine::fuzz
