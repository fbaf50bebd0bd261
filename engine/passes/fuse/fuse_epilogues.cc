#include "engine/passes/fuse/fuse_epilogues.h"

#include <utility>
#include <vector>

#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

// Returns whether kernels of products can apply the function themselves.
bool MayEndProduct(UnaryFunction function) {
  return function == UnaryFunction::kClip ||
         function == UnaryFunction::kLeakyRelu ||
         function == UnaryFunction::kSilu ||
         function == UnaryFunction::kHardSwish;
}

Activation ActivationOf(const Node& node) {
  switch (node.op) {
    case Op::kRelu:
      return Activation::kRelu;
    case Op::kGelu:
      return node.get<GeluAttributes>().tanh_approximation
                 ? Activation::kGeluTanh
                 : Activation::kGelu;
    case Op::kSigmoid:
      return Activation::kSigmoid;
    case Op::kTanh:
      return Activation::kTanh;
    case Op::kUnary:
      return MayEndProduct(node.get<UnaryAttributes>().function)
                 ? Activation::kUnary
                 : Activation::kNone;
    default:
      return Activation::kNone;
  }
}

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Graph& graph)
      : graph_(graph),
        index_(graph),
        updaters_(Updaters(graph)),
        drop_(graph.nodes().size(), false) {}

  void Run() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.stage != Stage::kStep) continue;
      if (node.op == Op::kAdd) {
        // Either operand of the sum may be the product.
        if (!TryFuse(i, 0)) TryFuse(i, 1);
      } else if (ActivationOf(node) != Activation::kNone) {
        TryFuse(i, 0);
      }
    }
    DropNodes(graph_, drop_);
  }

 private:
  Node& NodeAt(int position) {
    return graph_.mutable_nodes()[static_cast<size_t>(position)];
  }

  // Merges the product that makes input `operand` of the node at `position`
  // into that node and its place.
  bool TryFuse(size_t position, size_t operand) {
    Node& follower = NodeAt(static_cast<int>(position));
    const ValueId x = follower.inputs[operand];
    // A fused node keeps the place of its last part, so positions stay valid.
    const int producer = index_.producer(x);
    if (producer < 0 || index_.is_output(x) || index_.readers(x).size() != 1) {
      return false;
    }
    Node product = NodeAt(producer);
    // A product of weights runs once, before anything that it could end with.
    if (product.stage != follower.stage) return false;
    Epilogue* epilogue = MutableEpilogue(product);
    if (epilogue == nullptr || epilogue->activation != Activation::kNone ||
        !InputsSurvive(product, static_cast<int>(position))) {
      return false;
    }
    if (follower.op == Op::kAdd) {
      if (epilogue->residual) return false;
      epilogue->residual = true;
      product.inputs.push_back(follower.inputs[1 - operand]);
    } else {
      epilogue->activation = ActivationOf(follower);
      if (follower.op == Op::kUnary) {
        epilogue->unary = follower.get<UnaryAttributes>();
      }
    }
    product.outputs = follower.outputs;
    follower = std::move(product);
    drop_[static_cast<size_t>(producer)] = true;
    return true;
  }

  // Returns whether nothing overwrites an input before `position`.
  bool InputsSurvive(const Node& node, int position) const {
    for (ValueId id : node.inputs) {
      const int updater = updaters_[static_cast<size_t>(id.index)];
      if (updater >= 0 && updater < position) return false;
    }
    return true;
  }

  Graph& graph_;
  GraphIndex index_;
  std::vector<int> updaters_;
  std::vector<bool> drop_;
};

}  // namespace

Epilogue* MutableEpilogue(Node& node) {
  if (node.op == Op::kConv2d) {
    return &std::get<Conv2dAttributes>(node.attributes).epilogue;
  }
  if (node.op == Op::kMatMul) {
    return &std::get<MatMulAttributes>(node.attributes).epilogue;
  }
  return nullptr;
}

absl::Status FuseEpilogues(Graph& graph) {
  EpilogueFuser(graph).Run();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
