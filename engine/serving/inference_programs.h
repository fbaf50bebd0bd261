// Compiles the programs that serve a model: one for every batch bucket. Models
// with several sizes of dimensions, or with shapes that depend on numbers of
// inputs, also get programs for those. Planning on the meta device and loading
// run the same code, so planned bytes are measured bytes.
//
// The results belong to one compute thread; the back end must outlive them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/size_expression.h"
#include "engine/model/model_source.h"
#include "engine/model/served_sizes.h"
#include "engine/model/stage.h"
#include "engine/plan/report.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::engine {

// The batch, the sizes and the stage for which a program is made.
struct ProgramKey {
  int64_t batch = 1;
  std::vector<int64_t> sizes;  // in the order of ServedSizes::dimensions
  std::string bound;           // bytes of the bound inputs, in order
  StageAnswers answers;        // after which the stage begins

  friend bool operator==(const ProgramKey&, const ProgramKey&) = default;
};

struct InferenceProgram {
  ProgramKey key;
  Program program;
  std::vector<Shape> outputs;  // whole shapes, batch included
  // The work of the host after this stage; null for the last stage.
  std::shared_ptr<const StageEnd> stage_end;
};

// A dimension, other than the batch, that differs between programs. It has the
// size of one of ServedSizes::dimensions or one that follows from them. If an
// output's has neither, only programs know it.
struct VariableAxis {
  int axis = 0;
  int dimension = -1;  // position in ServedSizes::dimensions; -1: none
  std::optional<SizeExpression> size;
  int64_t maximum = 1;

  bool IsKnown() const { return dimension >= 0 || size.has_value(); }
  // Returns whether its size changes with that dimension.
  bool Follows(const ServedSizes& served, size_t dimension) const;
  // Returns its size for the sizes of the dimensions; the maximum if only
  // programs know it. INVALID_ARGUMENT when the size would be negative or
  // cannot be computed.
  absl::StatusOr<int64_t> Size(const ServedSizes& served,
                               absl::Span<const int64_t> sizes) const;
};

// An input or output of a served model.
struct ServedPort {
  ModelPort port;  // for a batch of one and the largest sizes
  std::vector<VariableAxis> variable;  // in rising order
  bool bound = false;
};

struct InferenceOptions {
  bool input_scaling = false;
  uint32_t max_batch_size = 1;  // 1 .. v1::MAX_SERVED_ROWS
  // The most programs kept at a time when sizes vary, 1 ..
  // v1::MAX_SERVED_PROGRAMS.
  uint32_t max_programs = v1::DEFAULT_SERVED_PROGRAMS;
  // The type of products and of the ops between them.
  DType compute = DType::kFloat32;
  KernelOptions kernels;
};

// The planned programs: rising batches at the largest sizes, then other sizes
// at the largest batch. Every listed size and both ends of every range are
// planned, unless a size that follows from them would be negative. Programs for
// other sizes, or for other batches if computes_alone, are made later.
struct InferencePrograms {
  InferenceOptions options;
  std::vector<InferenceProgram> programs;
  // Whether all inputs and outputs have a batch dimension. If not, or with
  // bound inputs, the only batch is 1.
  bool batched = true;
  // Whether rows of a batch may influence each other (row_analysis.h). Then a
  // program must have exactly the rows of one request.
  bool computes_alone = false;
  uint32_t max_batch_size = 1;
  // The most programs, of which those for other sizes are made later. 0: the
  // planned ones are all.
  uint32_t max_programs = 0;
  // Whether the model runs in stages (engine/model/stage.h), and the most bytes
  // that stages pass on. The programs are then stages for the largest answers;
  // those for other answers are made later.
  bool staged = false;
  uint64_t passed_bytes = 0;
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

// Returns 1, 2, 4, ... below `max_batch_size`, then `max_batch_size` itself.
std::vector<int64_t> BatchBuckets(uint32_t max_batch_size);

// Plans and compiles the programs of a model.
//   INVALID_ARGUMENT     names the layer, the dimension, or an option out of
//                        range
//   FAILED_PRECONDITION  shapes depend on numbers of inputs, and none are given
//                        for the plan; names the inputs
absl::StatusOr<InferencePrograms> CompileInference(
    const ModelSource& source, const InferenceOptions& options,
    DeviceBackend* backend);

// Compiles one more program of a model that CompileInference has planned, with
// the options of the plan. Errors name the sizes. INVALID_ARGUMENT also when
// rows may influence each other for these sizes, but not for the planned ones.
absl::StatusOr<InferenceProgram> CompileProgram(
    const ModelSource& source, const InferencePrograms& planned,
    const ProgramKey& key, DeviceBackend* backend);

// Return the planned bytes and the arena. With max_programs, `peak` has space
// for that many programs of any sizes: each may take as much resident memory of
// its own as the largest planned one.
PlannedBytes BytesOf(const InferencePrograms& programs);
uint64_t ArenaBytesOf(const InferencePrograms& programs);

}  // namespace gpupool::engine
