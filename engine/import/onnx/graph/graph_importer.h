// Walks the nodes of an ONNX model and keeps what they share: the graph being
// built, the names in sight, the weights, the budget of nodes. Internal to
// the import of ONNX; lowerings see it through NodeContext.
//
// Not thread-safe. The file and the options must outlive it.
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
#include "engine/import/layer_spec.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/folding_builder.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "engine/import/onnx/graph/scope.h"

namespace onnx {
class FunctionProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

// Nodes that one import visits, loops unrolled and functions expanded.
inline constexpr int64_t kMaxImportedNodes = 400000;
// Bodies within bodies of loops, branches and functions.
inline constexpr int kMaxCallDepth = 64;

class GraphImporter {
 public:
  GraphImporter(const OnnxFile& file, const OnnxBuildOptions& options);

  absl::StatusOr<ModelGraph> Import();

  const OnnxBuildOptions& options() const { return options_; }
  const OnnxFile& file() const { return file_; }
  FoldingBuilder& values() { return values_; }
  ModelGraph& model() { return model_; }
  Scope& scope() { return *scope_; }

  // The value of an entry that is a tensor. An initializer becomes a
  // persistent value of that class when it is floating and has a rank, or is
  // large; else a constant.
  absl::StatusOr<ValueId> Materialize(const Entry& entry,
                                      MemoryClass memory_class);
  // Its numbers. FailedPrecondition with the needed inputs; `title` is the
  // node's and `what` says what the value is.
  absl::StatusOr<HostTensor> Numbers(const Entry& entry,
                                     absl::string_view title,
                                     absl::string_view what);
  bool HasNumbers(const Entry& entry);

  // Imports a subgraph with its declared inputs standing for `inputs`;
  // returns its outputs.
  absl::StatusOr<std::vector<Entry>> ImportSubgraph(
      const onnx::GraphProto& graph, const std::vector<Entry>& inputs);
  // The same for a function that is called by `node`.
  absl::Status ImportCall(const onnx::NodeProto& node,
                          const onnx::FunctionProto& function);
  // A message that lives as long as the importer. What a function takes is
  // held: InvalidArgument when that is too much. What a node takes the caller
  // has held.
  const onnx::NodeProto* Keep(std::unique_ptr<onnx::NodeProto> node);
  absl::StatusOr<const onnx::FunctionProto*> Keep(
      std::unique_ptr<onnx::FunctionProto> function);

  // What an unnamed or named input stands for; null when it is absent.
  const Entry* Find(absl::string_view name) const;
  // A number that no other stream of random numbers has.
  uint64_t NewStream(absl::string_view name);
  void Warn(std::string text);

 private:
  absl::Status AddInitializers(const onnx::GraphProto& graph, Scope& scope);
  template <typename Nodes>
  absl::Status ImportNodes(const Nodes& nodes);
  absl::Status ImportNode(const onnx::NodeProto& node);
  absl::Status LowerNode(const onnx::NodeProto& node, absl::string_view domain);
  absl::Status ImportTopLevel();
  // Takes what looking at them costs, and sees that not too much is held.
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
  int depth_ = 0;
  int64_t imported_nodes_ = 0;
  std::vector<std::unique_ptr<onnx::NodeProto>> kept_nodes_;
  std::vector<std::unique_ptr<onnx::FunctionProto>> kept_functions_;
  absl::flat_hash_map<const onnx::TensorProto*, ValueId> materialized_;
  absl::flat_hash_set<uint64_t> streams_;
  absl::flat_hash_map<uint64_t, uint64_t> next_streams_;
  absl::flat_hash_set<std::string> warned_;
};

// model_ports.cc: declares the model's inputs in `scope`, and its outputs.
absl::Status AddModelInputs(GraphImporter& importer, Scope& scope);
absl::Status AddModelOutputs(GraphImporter& importer, const Scope& scope);

}  // namespace gpupool::engine::onnx_import
