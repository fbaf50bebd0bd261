// Walks the nodes of an ONNX model and keeps their common state: the graph
// being built, the names in scope, the weights, the budget. Internal to the
// import of ONNX. Lowerings see it through NodeContext.
//
// Thread-safety: one thread at a time. The file and the options must outlive
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/folding_builder.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "engine/import/onnx/graph/scope.h"
#include "engine/import/onnx/graph/stages.h"
#include "engine/model/layer_spec.h"

namespace onnx {
class FunctionProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

// Most nodes that one import visits, with loops unrolled and functions
// expanded.
inline constexpr int64_t kMaxImportedNodes = 400000;
// Most levels of bodies of loops, branches and functions inside each other.
inline constexpr int kMaxCallDepth = 64;

class GraphImporter {
 public:
  // `run_loops` are places of loops that must not be unrolled.
  GraphImporter(const OnnxFile& file, const OnnxBuildOptions& options,
                const absl::flat_hash_set<std::string>& run_loops);

  // Fills in model(). ABORTED when a stage ends or begins anew (stages()); then
  // model() is the graph so far.
  absl::Status Import();

  const OnnxBuildOptions& options() const { return options_; }
  const OnnxFile& file() const { return file_; }
  FoldingBuilder& values() { return values_; }
  ModelGraph& model() { return model_; }
  Scope& scope() { return *scope_; }
  Stages& stages() { return stages_; }
  // Returns the place of the node that is being imported: its position, behind
  // those of the nodes around it.
  std::string Place() const;
  // Ends the stage before the rest of the node that is being imported, which
  // reads `needed`.
  absl::Status EndStage(StageEnd end, std::vector<StageOutput> outputs,
                        ValueIds needed = {});

  // Returns the value of an entry that is a tensor. An initializer becomes a
  // persistent value of `memory_class` when it is large, or when it is floating
  // and has a rank. Otherwise it becomes a constant.
  absl::StatusOr<ValueId> Materialize(const Entry& entry,
                                      MemoryClass memory_class);
  // Returns the entry's numbers. FAILED_PRECONDITION lists the inputs that they
  // depend on. `title` is the node's and `what` describes the value.
  absl::StatusOr<HostTensor> Numbers(const Entry& entry,
                                     absl::string_view title,
                                     absl::string_view what);
  bool HasNumbers(const Entry& entry);

  // Imports a subgraph whose declared inputs are `inputs`. Returns its outputs.
  absl::StatusOr<std::vector<Entry>> ImportSubgraph(
      const onnx::GraphProto& graph, const std::vector<Entry>& inputs);
  // Imports a function that `node` calls.
  absl::Status ImportCall(const onnx::NodeProto& node,
                          const onnx::FunctionProto& function);
  // Keep a message until the importer is gone. The bytes of a function are
  // held: INVALID_ARGUMENT when that is too much. The caller must have held
  // those of a node.
  const onnx::NodeProto* Keep(std::unique_ptr<onnx::NodeProto> node);
  absl::StatusOr<const onnx::FunctionProto*> Keep(
      std::unique_ptr<onnx::FunctionProto> function);

  // Returns the entry of a name, or null for an absent input.
  const Entry* Find(absl::string_view name) const;
  // Returns a number that no other stream of random numbers has.
  uint64_t NewStream(absl::string_view name);
  void Warn(std::string text);

 private:
  // A graph or function that is being imported.
  struct Frame {
    const Scope* scope = nullptr;
    absl::Span<const onnx::NodeProto* const> nodes;
    std::vector<absl::string_view> outputs;
    size_t at = 0;  // position of the node
  };
  static Frame FrameOf(const onnx::GraphProto& graph, const Scope* scope);
  static Frame FrameOf(const onnx::FunctionProto& function, const Scope* scope);
  // Returns the values that the rest of the import may read, without the inputs
  // of the innermost node.
  ValueIds LiveValues() const;
  absl::Status AddInitializers(const onnx::GraphProto& graph, Scope& scope);
  absl::Status ImportNode(const onnx::NodeProto& node);
  absl::Status LowerNode(const onnx::NodeProto& node, absl::string_view domain);
  absl::Status ImportTopLevel();
  // Take the cost of visiting from the budget, and check that not too much is
  // held.
  absl::Status Visit(const onnx::NodeProto& node);
  absl::Status Visit(const onnx::GraphProto& graph);
  void Describe(const onnx::NodeProto& node, size_t first_node,
                size_t first_persistent);
  absl::StatusOr<HostTensor> ReadPersistent(const std::string& name) const;

  const OnnxFile& file_;
  const OnnxBuildOptions& options_;
  ModelGraph model_;
  FoldingBuilder values_;
  OperatorSets operator_sets_;
  Scope* scope_ = nullptr;
  Stages stages_;
  std::vector<Frame> frames_;
  int depth_ = 0;
  int64_t imported_nodes_ = 0;
  std::vector<std::unique_ptr<onnx::NodeProto>> kept_nodes_;
  std::vector<std::unique_ptr<onnx::FunctionProto>> kept_functions_;
  absl::flat_hash_map<const onnx::TensorProto*, ValueId> materialized_;
  absl::flat_hash_set<uint64_t> streams_;
  absl::flat_hash_map<uint64_t, uint64_t> next_streams_;
  absl::flat_hash_set<std::string> warned_;
};

// Declare the model's inputs in `scope`, and its outputs. Defined in
// model_ports.cc.
absl::Status AddModelInputs(GraphImporter& importer, Scope& scope);
absl::Status AddModelOutputs(GraphImporter& importer, const Scope& scope);

}  // namespace gpupool::engine::onnx_import
