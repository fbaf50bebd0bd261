#include "engine/passes/fold_batch_norm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/passes/rewrite.h"

namespace gpupool::engine {
namespace {

bool IsKnownAtLoad(const Value& value) {
  return value.kind == ValueKind::kPersistent ||
         value.kind == ValueKind::kDerived ||
         value.kind == ValueKind::kConstant;
}

Epilogue* MutableEpilogue(Node& node) {
  if (auto* conv = std::get_if<Conv2dAttributes>(&node.attributes)) {
    return node.op == Op::kConv2d ? &conv->epilogue : nullptr;
  }
  if (auto* matmul = std::get_if<MatMulAttributes>(&node.attributes)) {
    // The rows of the weights must be what batch norm calls channels.
    return matmul->transpose_b ? &matmul->epilogue : nullptr;
  }
  return nullptr;
}

class Folder {
 public:
  explicit Folder(Graph& graph)
      : graph_(graph),
        index_(graph),
        replaced_(Identity(graph)),
        drop_(graph.nodes().size(), false) {}

  absl::Status Run() {
    const size_t count = graph_.nodes().size();
    for (size_t i = 0; i < count; ++i) {
      if (graph_.nodes()[i].op != Op::kBatchNormInference) continue;
      RETURN_IF_ERROR(TryFold(i));
    }
    replaced_.resize(graph_.values().size());
    for (size_t v = values_before_; v < replaced_.size(); ++v) {
      replaced_[v] = ValueId{static_cast<int32_t>(v)};
    }
    ApplyReplacements(graph_, replaced_);
    drop_.resize(graph_.nodes().size(), false);
    DropNodes(graph_, drop_);
    MoveLoadNodesFirst();
    return absl::OkStatus();
  }

 private:
  absl::Status TryFold(size_t norm_position) {
    const Node norm = graph_.nodes()[norm_position];
    const ValueId x = norm.inputs[0];
    const int producer = index_.producer(x);
    if (producer < 0 || index_.is_output(x) || index_.readers(x).size() != 1) {
      return absl::OkStatus();
    }
    Node product = graph_.nodes()[static_cast<size_t>(producer)];
    Epilogue* epilogue = MutableEpilogue(product);
    if (epilogue == nullptr || epilogue->residual ||
        epilogue->activation != Activation::kNone) {
      return absl::OkStatus();
    }
    ValueIds inputs{product.inputs[1]};
    inputs.insert(inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
    if (epilogue->bias) inputs.push_back(product.inputs[2]);
    for (ValueId id : inputs) {
      if (!IsKnownAtLoad(graph_.value(id))) return absl::OkStatus();
    }
    GraphBuilder builder(&graph_);
    builder.SetSource(norm.source, norm.region);
    builder.SetStage(Stage::kLoad);
    ASSIGN_OR_RETURN(const ValueIds folded,
                     builder.Emit(Op::kFoldBatchNorm, inputs, norm.attributes));
    epilogue->bias = true;
    product.inputs = {product.inputs[0], folded[0], folded[1]};
    graph_.mutable_nodes()[static_cast<size_t>(producer)] = product;
    replaced_[static_cast<size_t>(norm.outputs[0].index)] = x;
    drop_[norm_position] = true;
    return absl::OkStatus();
  }

  void MoveLoadNodesFirst() {
    std::vector<Node>& nodes = graph_.mutable_nodes();
    std::stable_partition(nodes.begin(), nodes.end(), [](const Node& node) {
      return node.stage == Stage::kLoad;
    });
  }

  Graph& graph_;
  GraphIndex index_;
  std::vector<ValueId> replaced_;
  std::vector<bool> drop_;
  const size_t values_before_ = replaced_.size();
};

}  // namespace

absl::Status FoldBatchNorm(Graph& graph) {
  if (HasUpdates(graph)) return absl::OkStatus();
  return Folder(graph).Run();
}

}  // namespace gpupool::engine
