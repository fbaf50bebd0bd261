// Stages: a model whose execution depends on computed values is built part by
// part. A stage is a graph up to a value that the host must know: a condition,
// a trip count, a number of rows. When the stage has run, the host answers, and
// with the answer the next stage is built (BuildOptions::answers).
//
// Plain values. Answers come from this process alone, so wrong ones abort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/graph/ops.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// Answers of the host between the stages so far, in order:
//   a branch       1 (then) or 0 (else)
//   a computation  the number of rows of its results
//   a loop         kEnterLoop and the types of the states, while iterations
//                  run; kLeaveLoop, the number of rows of stacked outputs (0
//                  without any), the types of the states, and of one row
using StageAnswers = std::vector<int64_t>;
inline constexpr int64_t kLeaveLoop = 0;
inline constexpr int64_t kEnterLoop = 1;

// A tensor that stages pass on, by its name in their graphs.
struct StageTensor {
  std::string name;
  TensorType type;
};

// A tensor in host memory. Integers are exact up to 2^53.
struct StageNumbers {
  TensorType type;
  std::vector<double> numbers;
};

// A computation of the host.
struct StageCall {
  // Returns the types of the results for this number of rows.
  std::function<std::vector<TensorType>(int64_t rows)> types;
  struct Results {
    int64_t rows = 0;
    std::vector<StageNumbers> tensors;
  };
  std::function<absl::StatusOr<Results>(const std::vector<StageNumbers>&)> run;
  int64_t most_rows = 0;
};

// The work of the host when a stage has run.
struct StageEnd {
  enum class Kind : uint8_t {
    kBranch,     // takes a branch
    kCompute,    // computes results from numbers
    kLoop,       // begins a loop, or skips it
    kIteration,  // begins the next iteration, or ends the loop
  };
  Kind kind = Kind::kBranch;
  std::string node;   // "If 'name'", for messages
  std::string place;  // of the node, different for each call of a function
  // Names of the values that later stages may read. Others are not needed any
  // more. The stage has those that it computes as outputs.
  std::vector<std::string> kept;
  // Outputs of the stage for the host: a condition; operands; the trip count
  // and the condition unless they are known.
  std::vector<StageTensor> reads;
  StageCall call;  // kCompute
  // kLoop and kIteration: outputs of the stage that the next one takes.
  std::vector<StageTensor> states;
  std::vector<StageTensor> rows;  // kIteration: one row of each stacked output
  // kLoop: the known trip count. Nothing: the first of `reads` if reads_trips,
  // else there is none.
  std::optional<int64_t> trips;
  bool reads_trips = false;
  // kLoop and kIteration: the known condition. Nothing: the last of `reads`.
  std::optional<bool> goes_on;
};

// Returns the name of an input of later stages: of a "result", "state" or "row"
// of the node at `place`, or of its "iteration". Names in files have no line
// breaks, so no value of a file has it (IsStageInput).
inline std::string StageInputName(absl::string_view place,
                                  absl::string_view what, size_t i = 0) {
  return absl::StrCat("\n", place, " ", what, " ", i);
}

inline bool IsStageInput(absl::string_view name) {
  return !name.empty() && name[0] == '\n';
}

inline void AppendType(const TensorType& type, StageAnswers& answers) {
  answers.push_back(static_cast<int64_t>(type.dtype));
  answers.push_back(type.shape.rank());
  for (int64_t size : type.shape.dims()) answers.push_back(size);
}

// Reads answers in order. They must outlive it.
class StageAnswerReader {
 public:
  explicit StageAnswerReader(absl::Span<const int64_t> answers)
      : rest_(answers) {}

  bool done() const { return rest_.empty(); }
  int64_t Next() {
    GPUPOOL_CHECK(!rest_.empty());
    const int64_t number = rest_.front();
    rest_.remove_prefix(1);
    return number;
  }
  TensorType NextType() {
    const auto dtype = static_cast<DType>(Next());
    const auto rank = static_cast<size_t>(Next());
    GPUPOOL_CHECK(rank <= rest_.size());
    const auto shape = Shape::CreateMaybeEmpty(rest_.first(rank));
    GPUPOOL_CHECK(shape.ok());
    rest_.remove_prefix(rank);
    return {dtype, *shape};
  }

 private:
  absl::Span<const int64_t> rest_;
};

}  // namespace gpupool::engine
