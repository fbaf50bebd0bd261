// Ends the import of a stage at a value that the host must know, and continues
// a later one with the host's answer (engine/model/stage.h). Internal to the
// import of ONNX.
//
// All stages import the file from its beginning. The same answers give the same
// nodes, so a stage is the nodes behind the place of the last answer.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/import/onnx/file/host_tensor.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/model/stage.h"
#include "engine/tensor/widened_type.h"

namespace gpupool::engine::onnx_import {

// An output of a stage.
struct StageOutput {
  std::string name;
  ValueId value;
  // See ModelPort. Set for outputs of the model only.
  std::optional<WidenedType> declared = std::nullopt;
  std::string loop = {};  // as in ModelPort
};

class Stages {
 public:
  // Stages are off without `answers`. `run` are places of loops that must not
  // be unrolled. Both must outlive it.
  Stages(const std::optional<StageAnswers>& answers,
         const absl::flat_hash_set<std::string>& run)
      : on_(answers.has_value()),
        run_(run),
        answers_(on_ ? absl::Span<const int64_t>(*answers)
                     : absl::Span<const int64_t>()) {}

  bool on() const { return on_; }
  // Returns whether the loop there must not be unrolled.
  bool Runs(const std::string& place) const { return run_.contains(place); }
  bool HasAnswer() const { return !answers_.done(); }
  // Takes answers. The stage begins behind the last one, at this number of
  // nodes.
  StageAnswerReader& Take(size_t nodes) {
    first_node_ = nodes;
    return answers_;
  }
  size_t first_node() const { return first_node_; }

  // Note, and return, that the import is inside of a loop that is not unrolled:
  // its body is a stage, which runs once for each iteration.
  void BeginIteration() { in_iteration_ = true; }
  bool in_iteration() const { return in_iteration_; }

  // Note that the loop at `place` is being unrolled, and that this has ended.
  // An empty place stands for a node that is always unrolled.
  void BeginUnrolling(std::string place) {
    unrolling_.push_back(std::move(place));
  }
  void EndUnrolling() { unrolling_.pop_back(); }
  // Ends the import because the loops that are being unrolled must run instead.
  // UNIMPLEMENTED, with the node's title, when one of them cannot.
  absl::Status RunLoops(absl::string_view title);
  const std::vector<std::string>& loops_to_run() const { return loops_to_run_; }

  // Ends the stage. Returns an error that ends the import. `live` are values
  // that later stages may read.
  absl::Status End(StageEnd end, std::vector<StageOutput> outputs,
                   ValueIds live);
  const std::optional<StageEnd>& end() const { return end_; }
  const std::vector<StageOutput>& outputs() const { return outputs_; }
  const ValueIds& live() const { return live_; }

 private:
  const bool on_;
  const absl::flat_hash_set<std::string>& run_;
  StageAnswerReader answers_;
  size_t first_node_ = 0;
  bool in_iteration_ = false;
  std::vector<std::string> unrolling_;
  std::vector<std::string> loops_to_run_;
  std::optional<StageEnd> end_;
  std::vector<StageOutput> outputs_;
  ValueIds live_;
};

// Marks a loop as being unrolled while it lives.
class Unrolling {
 public:
  Unrolling(Stages& stages, std::string place) : stages_(stages) {
    stages_.BeginUnrolling(std::move(place));
  }
  ~Unrolling() { stages_.EndUnrolling(); }
  Unrolling(const Unrolling&) = delete;
  Unrolling& operator=(const Unrolling&) = delete;

 private:
  Stages& stages_;
};

// Returns which branch the node takes, or ends the stage.
absl::StatusOr<bool> AskForBranch(NodeContext& ctx, ValueId condition);

// Most elements that the host reads for one node.
inline constexpr int64_t kMaxHostElements = int64_t{1} << 24;

// Something that is computed from numbers and decides about shapes.
struct HostCall {
  std::function<std::vector<TensorType>(int64_t rows)> types;
  struct Results {
    int64_t rows = 0;
    std::vector<HostTensor> tensors;
  };
  std::function<absl::StatusOr<Results>(const std::vector<HostTensor>&)> run;
  int64_t most_rows = 0;
  ValueIds needed;  // values that the node reads afterwards
};

// An input of a node, and what it is: "the tensor".
struct HostOperand {
  int input = 0;
  absl::string_view what;
};

// Returns the shape of an operand, without making a weight of an initializer
// whose numbers are known. FAILED_PRECONDITION as ComputeOnHost.
absl::StatusOr<Shape> OperandShape(NodeContext& ctx,
                                   const HostOperand& operand);
// Returns the shape with these sizes, for HostCall::types. One with the most
// rows must have been valid.
Shape SmallerShape(absl::Span<const int64_t> dims);

// Returns the results of `call` on these inputs: constants if their numbers are
// known, otherwise inputs of the stage after this one, which is ended first.
// FAILED_PRECONDITION as NodeContext::Known when stages are off.
absl::StatusOr<ValueIds> ComputeOnHost(NodeContext& ctx,
                                       const std::vector<HostOperand>& operands,
                                       const HostCall& call);

// Adds an input to a stage. One without elements becomes a constant.
absl::StatusOr<ValueId> StageInput(NodeContext& ctx, const std::string& name,
                                   const TensorType& type);

}  // namespace gpupool::engine::onnx_import
