#include "engine/import/onnx/file/unshare_norms.h"

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace gpupool::engine::onnx_import {
namespace {

// Limits for one tensor, and for all copies together.
constexpr int64_t kMaxElements = 65536;
constexpr int64_t kMaxCopiedElements = int64_t{16} << 20;

class Unsharing {
 public:
  explicit Unsharing(onnx::GraphProto* graph) : graph_(*graph) {
    CountReads(graph_);
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      initializers_[graph_.initializer(i).name()] = i;
      names_.insert(graph_.initializer(i).name());
    }
    for (const auto& output : graph_.output()) ++reads_[output.name()];
    for (const auto& node : graph_.node()) {
      names_.insert(node.output().begin(), node.output().end());
      if (node.op_type() == "Identity" && node.input_size() == 1 &&
          node.output_size() == 1) {
        const auto source = sources_.find(node.input(0));
        // A copy, since the table may move when it takes in the output.
        std::string name =
            source == sources_.end() ? node.input(0) : source->second;
        sources_[node.output(0)] = std::move(name);
      }
    }
    for (const auto& input : graph_.input()) names_.insert(input.name());
  }

  void Run() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      onnx::NodeProto& node = *graph_.mutable_node(i);
      if (node.op_type() != "BatchNormalization") continue;
      for (int k = 1; k < node.input_size() && k <= 4; ++k) {
        Unshare(absl::StrCat("/", i, ".", k), *node.mutable_input(k));
      }
    }
  }

 private:
  // Counts the reads of every name. In a subgraph a name may mean another
  // value, which costs at most a needless copy.
  void CountReads(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) {
      for (const std::string& input : node.input()) ++reads_[input];
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) CountReads(attribute.g());
        for (const auto& inner : attribute.graphs()) CountReads(inner);
      }
    }
  }

  void Unshare(const std::string& suffix, std::string& input) {
    const auto source = sources_.find(input);
    const std::string tensor =
        source == sources_.end() ? input : source->second;
    const auto found = initializers_.find(tensor);
    if (found == initializers_.end()) return;
    if (tensor == input && reads_[input] < 2) return;
    const int64_t elements = Elements(graph_.initializer(found->second));
    const std::string name = absl::StrCat(tensor, suffix);
    if (elements > kMaxElements || copied_ + elements > kMaxCopiedElements ||
        !names_.insert(name).second) {
      return;
    }
    copied_ += elements;
    --reads_[input];
    const onnx::TensorProto copy = graph_.initializer(found->second);
    *graph_.add_initializer() = copy;
    graph_.mutable_initializer(graph_.initializer_size() - 1)->set_name(name);
    input = name;
  }

  static int64_t Elements(const onnx::TensorProto& tensor) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims()) {
      // This check comes first, so that the product cannot overflow.
      if (dim < 1 || dim > kMaxElements) return kMaxElements + 1;
      elements *= dim;
      if (elements > kMaxElements) return elements;
    }
    return elements;
  }

  onnx::GraphProto& graph_;
  absl::flat_hash_map<std::string, int> reads_;
  absl::flat_hash_map<std::string, int> initializers_;
  // Sources of the outputs of Identity nodes, before the first one of a chain.
  absl::flat_hash_map<std::string, std::string> sources_;
  absl::flat_hash_set<std::string> names_;
  int64_t copied_ = 0;
};

}  // namespace

void UnshareNorms(onnx::ModelProto& model) {
  // Before version 4 every initializer had to be an input of the graph too.
  if (model.ir_version() < 4) return;
  Unsharing(model.mutable_graph()).Run();
}

}  // namespace gpupool::engine::onnx_import
