// Matches the inputs of a model with the arrays of a dataset: when the job is
// submitted by the facts of the dataset, and again by every number when its
// rows are read. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/table.h"
#include "engine/data/transform/row_transforms.h"
#include "engine/data/transform/token_mask.h"
#include "engine/model/layer_spec.h"
#include "engine/train/input/batch_mix.h"
#include "engine/train/job_check.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

// The tokens of an input that random_mask hides.
struct FedMask {
  TokenMask mask;
  uint64_t seed = 0;
  size_t tokens = 0;    // position of the input in Table::inputs
  int64_t ignored = 0;  // targets only: the label of tokens that are not chosen
};

// An input of a training's programs that rows of the dataset fill.
struct FedInput {
  std::string name;     // in the graphs
  bool target = false;  // a target of the dataset, else one of its inputs
  bool mixed = false;   // targets of the rows that are mixed in (BatchMix)
  size_t column = 0;    // position in Table::inputs or targets
  RowTransforms transforms;
  // Integer inputs, and the targets whose labels belong to them.
  std::optional<FedMask> mask;
};

// Returns for each of the model's inputs the dataset's input that fills it: the
// one of its name, or the features if the model has one input and the dataset
// has no named ones. INVALID_ARGUMENT names the input, what it needs and the
// inputs of the dataset.
absl::StatusOr<std::vector<FedInput>> FeedModel(
    const std::vector<ModelPort>& inputs, const DataFacts& facts);

// Does the same for rows that data.transforms change first, but for random_mask
// (FedInput::mask). Rows are images [channels, height, width]. Rows [height,
// width] have one channel, and other rows have the shape of the model's input
// if that is an image of as many numbers. INVALID_ARGUMENT names the transform
// that does not fit.
absl::StatusOr<std::vector<FedInput>> FeedTransformed(
    const std::vector<ModelPort>& inputs, const v1::DataSpec& data,
    const DataFacts& facts);

// Returns the position of a loss's target among those of the dataset, and makes
// its labels those of `facts`. An empty name means the only target, or labels
// without a name. INVALID_ARGUMENT begins with `field` and lists the targets.
absl::StatusOr<size_t> FindTarget(const std::string& field,
                                  const std::string& target, DataFacts& facts);

// Returns the column that fills the input.
const Column& FedColumn(const Table& table, const FedInput& fed);

// Checks that integer inputs can hold every number of their columns: int32
// inputs those of larger integers, int32 and int64 inputs those of
// floating-point columns, which must be whole. Targets of floating-point
// numbers are not checked, nor is a RandomTable. INVALID_ARGUMENT names the
// input, the row and the number.
absl::Status CheckFedNumbers(const Table& table, absl::Span<const FedInput> fed,
                             const Graph& graph);

// Returns the host memory of an input of a program; empty when there is none.
using InputBytes = absl::FunctionRef<absl::Span<std::byte>(absl::string_view)>;

// The epoch of a batch, from which random transforms follow.
struct TrainedEpoch {
  uint64_t seed = 0;
  uint64_t epoch = 0;
};

// A batch: rows of a table, and where they go.
struct FedBatch {
  const Table& table;
  absl::Span<const FedInput> fed;
  absl::Span<const uint32_t> rows;
  // Nothing for rows that are evaluated, without random transforms.
  std::optional<TrainedEpoch> epoch;
  // The mixing of transformed rows; null for a program without mixed losses.
  const BatchMix* mix = nullptr;
};

// Copies the rows, converted, transformed, masked and mixed, into inputs of a
// program with this graph, and lambda into kMixLambdaName. The rest of each
// input becomes zero. DATA_LOSS when a mapped file was cut off.
absl::Status FillInputs(const FedBatch& batch, const Graph& graph,
                        InputBytes input);

}  // namespace gpupool::engine
