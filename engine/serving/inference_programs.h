// Compiles what serves a model: a program for every batch bucket, and for
// models whose dimensions have several sizes, or whose shapes depend on
// numbers of inputs, programs for those. Planning on the meta device and
// loading do the same here, which is why planned bytes are measured bytes.
//
// The results belong to one compute thread; the back end must outlive them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/import/model_source.h"
#include "engine/plan/report.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"

namespace gpupool::engine {

// What a program is made for.
struct ProgramKey {
  int64_t batch = 1;
  std::vector<int64_t> sizes;  // of ServedSizes::dimensions, in their order
  std::string bound;           // bytes of the bound inputs, in their order

  friend bool operator==(const ProgramKey&, const ProgramKey&) = default;
};

struct InferenceProgram {
  ProgramKey key;
  Program program;
  std::vector<Shape> outputs;  // whole
};

// A dimension that differs between programs, the batch aside.
struct VariableAxis {
  int axis = 0;
  // Position in ServedSizes::dimensions whose size it has; -1: it follows from
  // them, or from the bound inputs, in another way. Only outputs have such.
  int dimension = -1;
  int64_t maximum = 1;
};

// An input or output of a model that is served.
struct ServedPort {
  ModelPort port;  // for a batch of one and the largest sizes
  std::vector<VariableAxis> variable;  // rising
  bool bound = false;
};

inline constexpr uint32_t kMaxServingBatch = 1024;
inline constexpr uint32_t kDefaultServingBatch = 32;
inline constexpr uint32_t kMaxServingPrograms = 256;
inline constexpr uint32_t kDefaultServingPrograms = 16;

struct InferenceOptions {
  bool input_scaling = false;
  uint32_t max_batch_size = 1;  // 1 .. kMaxServingBatch
  // Kept at a time where sizes vary, 1 .. kMaxServingPrograms.
  uint32_t max_programs = kDefaultServingPrograms;
  // What products and what lies between them run in.
  DType compute = DType::kFloat32;
  KernelOptions kernels;
};

// The programs that are planned: rising batches at the largest sizes, then
// other sizes at the largest batch. Every listed size is among them, and both
// ends of every range.
struct InferencePrograms {
  std::vector<InferenceProgram> programs;
  // Whether all inputs and outputs have a batch dimension. If not there is one
  // batch, of 1; so it is with bound inputs.
  bool batched = true;
  uint32_t max_batch_size = 1;
  // Of which programs for other sizes will be made. 0: these are all.
  uint32_t max_programs = 0;
  WeightLayout layout;
  // Float32 weights that are stored in InferenceOptions::compute.
  absl::flat_hash_set<std::string> narrow;
  std::vector<PersistentSpec> persistents;
  std::vector<LayerInfo> layers;
  std::vector<std::string> warnings;
  std::vector<ServedPort> inputs;  // bound ones last, by name
  std::vector<ServedPort> outputs;
  uint64_t parameters = 0;
};

// 1, 2, 4, ... below `max_batch_size`, then `max_batch_size` itself.
std::vector<int64_t> BatchBuckets(uint32_t max_batch_size);

//   INVALID_ARGUMENT     names the layer, the dimension, or an option out of
//                        range
//   FAILED_PRECONDITION  numbers of inputs decide shapes and none are given to
//                        plan with: names the inputs
absl::StatusOr<InferencePrograms> CompileInference(
    const ModelSource& source, const InferenceOptions& options,
    DeviceBackend* backend);

// One program more of a model that CompileInference has planned with these
// options. Errors name the sizes.
absl::StatusOr<InferenceProgram> CompileProgram(
    const ModelSource& source, const InferencePrograms& planned,
    const InferenceOptions& options, const ProgramKey& key,
    DeviceBackend* backend);

// With max_programs, `peak` has room for as many programs, whatever sizes they
// are for: each may take as much resident memory of its own as the planned one
// that takes most.
PlannedBytes BytesOf(const InferencePrograms& programs);
uint64_t ArenaBytesOf(const InferencePrograms& programs);

}  // namespace gpupool::engine
