// Finds the dimensions of a model's inputs and outputs that follow the served
// sizes, by comparing the shapes of programs for several sizes.
//
// Belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/serving/inference_programs.h"

namespace gpupool::engine {

inline constexpr size_t kMaxPlannedSizes = 32;

// Returns the combinations of sizes to plan, the largest first: every listed
// size, and both ends of every range. Leaves out those for which a size that
// follows from them is negative. INVALID_ARGUMENT when there are more than
// kMaxPlannedSizes, or when the largest sizes would be left out.
absl::StatusOr<std::vector<std::vector<int64_t>>> SizesToPlan(
    const ServedSizes& served);

// Returns additional sizes for the comparison: for each dimension of a single
// size, that dimension at another size. If sizes follow from others, also a
// size in the middle of each range, since both ends may agree by chance.
std::vector<std::vector<int64_t>> SizesToProbe(const ServedSizes& served);

class SizeAnalysis {
 public:
  // Adds the shapes of a model for these sizes. The first sizes added must be
  // the largest.
  void Add(const std::vector<int64_t>& sizes, const ModelGraph& model);

  // Fills in the variable axes of `programs`. INVALID_ARGUMENT when
  //   * a dimension is of no input, or a padded one is unknown
  //   * padding is no number of the input's type
  //   * an output's number of dimensions depends on sizes
  //   * an output depends on a padded dimension in a way that forbids cutting
  //     it back, or a size follows from one but does not end in it
  absl::Status Finish(const ServedSizes& served,
                      InferencePrograms& programs) const;

 private:
  struct Sample {
    std::vector<int64_t> sizes;
    std::vector<Shape> inputs;
    std::vector<Shape> outputs;
  };
  absl::Status FindAxes(const ServedSizes& served, bool output,
                        InferencePrograms& programs) const;
  absl::Status FindAxesOf(const ServedSizes& served, size_t index, bool output,
                          InferencePrograms& programs) const;
  // Returns whether an output's axis changes when only that dimension does.
  bool Depends(size_t output, int axis, size_t dimension) const;
  // Returns the dimension that has the size of the axis in every sample; -1:
  // none has.
  int FindDimension(const ServedSizes& served, size_t index, bool output,
                    int axis) const;
  // Sets the size of an output's axis if a dimension has it in every sample, or
  // an expression does. `declared`, which may be null, is tried first.
  void FindOutputSize(const ServedSizes& served, size_t output,
                      const SizeExpression* declared, VariableAxis& axis) const;
  // Checks that numbers at the end of the sizes that follow from a padded
  // dimension pad this dimension.
  absl::Status CheckEnds(const ServedSizes& served, size_t dimension,
                         const InferencePrograms& programs) const;
  absl::Status CheckPadding(const ServedSizes& served,
                            const InferencePrograms& programs) const;
  absl::Status CheckCutting(const ServedSizes& served, size_t dimension,
                            const InferencePrograms& programs) const;

  std::vector<Sample> samples_;
};

}  // namespace gpupool::engine
