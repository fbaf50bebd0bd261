#include "engine/passes/fuse/fold_batch_norm.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/graph/fused.h"
#include "engine/passes/fuse/fuse_epilogues.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

// A function of each channel, x * scale + shift, given as a batch norm.
struct ChannelMap {
  ValueIds parameters;  // gamma, beta, mean, variance
  NormAttributes attributes;
};

class Folder {
 public:
  explicit Folder(Graph& graph)
      : graph_(graph),
        index_(graph),
        builder_(&graph),
        replaced_(Identity(graph)),
        drop_(graph.nodes().size(), false) {
    builder_.SetStage(Stage::kLoad);
  }

  absl::Status Run() {
    const size_t count = graph_.nodes().size();
    for (size_t i = 0; i < count; ++i) RETURN_IF_ERROR(Visit(i));
    // The builder has added values since; they are replaced by themselves.
    for (size_t v = replaced_.size(); v < graph_.values().size(); ++v) {
      replaced_.push_back(ValueId{static_cast<int32_t>(v)});
    }
    ApplyReplacements(graph_, replaced_);
    InsertAndDrop();
    MoveLoadNodesFirst(graph_);
    return absl::OkStatus();
  }

 private:
  void InsertAndDrop() {
    drop_.resize(graph_.nodes().size(), false);
    std::vector<Node> old = std::move(graph_.mutable_nodes());
    std::vector<Node>& nodes = graph_.mutable_nodes();
    nodes.clear();
    for (size_t i = 0; i < old.size(); ++i) {
      const auto inserted = inserted_.find(i);
      if (inserted != inserted_.end()) {
        nodes.push_back(std::move(inserted->second));
      }
      if (!drop_[i]) nodes.push_back(std::move(old[i]));
    }
  }

  absl::Status Visit(size_t position) {
    const Node node = graph_.nodes()[position];
    if (node.stage != Stage::kStep) return absl::OkStatus();
    builder_.SetSource(node.source, node.region);
    if (node.op == Op::kBatchNormInference) return FoldNorm(position, node);
    const auto* binary = std::get_if<BinaryAttributes>(&node.attributes);
    const bool sum =
        node.op == Op::kAdd ||
        (binary != nullptr && binary->function == BinaryFunction::kAdd);
    const bool product =
        binary != nullptr && binary->function == BinaryFunction::kMultiply;
    // Sums and products commute, so either operand may be the product.
    for (const size_t operand : {size_t{0}, size_t{1}}) {
      if (!sum && !product) break;
      const ValueId x = node.inputs[operand];
      const ValueId number = node.inputs[1 - operand];
      const std::optional<int> producer = ProductBehind(x);
      if (!producer.has_value() || !IsPerChannel(number, x, *producer)) {
        continue;
      }
      return sum ? AddToBias(position, *producer, number)
                 : FoldScale(position, *producer, number);
    }
    return absl::OkStatus();
  }

  // Returns the position of the convolution or matmul that makes x. Its weights
  // and bias must be known at load, nobody else may read its result, and
  // nothing but a bias may be fused with it.
  std::optional<int> ProductBehind(ValueId x) {
    if (index_.is_output(x) || index_.readers(x).size() != 1) {
      return std::nullopt;
    }
    // x may be a value that an earlier fold has replaced.
    const ValueId root = Resolve(replaced_, x);
    const int producer = index_.producer(root);
    if (producer < 0) return std::nullopt;
    Node& node = graph_.mutable_nodes()[static_cast<size_t>(producer)];
    const Epilogue* epilogue = MutableEpilogue(node);
    if (epilogue == nullptr || epilogue->residual ||
        epilogue->activation != Activation::kNone) {
      return std::nullopt;
    }
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (!IsKnownAtLoad(graph_.value(node.inputs[i]))) return std::nullopt;
    }
    return producer;
  }

  bool IsPerChannel(ValueId number, ValueId x, int producer) const {
    const Value& value = graph_.value(number);
    const Value& data = graph_.value(x);
    const bool columns =
        graph_.nodes()[static_cast<size_t>(producer)].op == Op::kMatMul;
    const int axis = columns ? data.shape.rank() - 1 : 1;
    const int missing = data.shape.rank() - value.shape.rank();
    return IsKnownAtLoad(value) && value.dtype == data.dtype && missing >= 0 &&
           axis >= missing && value.shape[axis - missing] == data.shape[axis] &&
           value.shape.elements() == data.shape[axis];
  }

  absl::StatusOr<ValueId> AsRow(ValueId id) {
    const Shape row{graph_.value(id).shape.elements()};
    if (graph_.value(id).shape == row) return id;
    return builder_.EmitOne(Op::kReshape, {id}, ShapeAttributes{row});
  }

  absl::Status FoldNorm(size_t position, const Node& norm) {
    for (size_t i = 1; i < norm.inputs.size(); ++i) {
      if (!IsKnownAtLoad(graph_.value(norm.inputs[i]))) {
        return absl::OkStatus();
      }
    }
    const ChannelMap map{ValueIds(norm.inputs.begin() + 1, norm.inputs.end()),
                         norm.get<NormAttributes>()};
    const std::optional<int> producer = ProductBehind(norm.inputs[0]);
    if (producer.has_value()) return FoldInto(*producer, position, map);
    ASSIGN_OR_RETURN(const bool folded,
                     FoldIntoTransposed(position, norm, map));
    return folded ? absl::OkStatus() : Split(position, norm, map);
  }

  // Replaces a norm that stays by a product and a sum, if an elementwise node
  // follows that can take in both.
  absl::Status Split(size_t position, const Node& norm, const ChannelMap& map) {
    const ValueId y = norm.outputs[0];
    if (index_.is_output(y) || index_.readers(y).size() != 1 ||
        !MayBeFusedStep(
            graph_.nodes()[static_cast<size_t>(index_.readers(y)[0])].op)) {
      return absl::OkStatus();
    }
    // Folding the norm into a weight of 1 gives the scale and the shift.
    const TensorType row = graph_.value(map.parameters[0]).type();
    ValueIds inputs{builder_.Constant(row, {1})};
    inputs.insert(inputs.end(), map.parameters.begin(), map.parameters.end());
    ASSIGN_OR_RETURN(const ValueIds folded,
                     builder_.Emit(Op::kFoldBatchNorm, inputs, map.attributes));
    const int rank = graph_.value(y).shape.rank();
    ASSIGN_OR_RETURN(const ValueId scale, BesideChannels(folded[0], rank));
    ASSIGN_OR_RETURN(const ValueId shift, BesideChannels(folded[1], rank));
    Value product = graph_.value(y);
    absl::StrAppend(&product.name, ":scaled");
    Node node = norm;
    node.op = Op::kBinary;
    node.attributes = BinaryAttributes{BinaryFunction::kMultiply};
    node.inputs = {norm.inputs[0], scale};
    node.outputs = {graph_.AddValue(std::move(product))};
    Node& sum = graph_.mutable_nodes()[position];
    sum.op = Op::kBinary;
    sum.attributes = BinaryAttributes{};
    sum.inputs = {node.outputs[0], shift};
    inserted_.emplace(position, std::move(node));
    return absl::OkStatus();
  }

  // Returns a row of numbers in a shape that broadcasts along axis 1 of `rank`.
  absl::StatusOr<ValueId> BesideChannels(ValueId row, int rank) {
    if (rank <= 2) return row;
    std::vector<int64_t> dims(static_cast<size_t>(rank) - 1, 1);
    dims[0] = graph_.value(row).shape[0];
    ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims));
    return builder_.EmitOne(Op::kReshape, {row}, ShapeAttributes{shape});
  }

  absl::Status FoldScale(size_t position, int producer, ValueId scale) {
    ASSIGN_OR_RETURN(const ValueId gamma, AsRow(scale));
    const TensorType row = graph_.value(gamma).type();
    // As a batch norm with mean 0 and variance 1, a scale is just its gamma.
    const ValueId zero = builder_.Constant(row, {0});
    const ValueId one = builder_.Constant(row, {1});
    return FoldInto(producer, position,
                    {{gamma, zero, zero, one}, {.epsilon = 0}});
  }

  absl::Status AddToBias(size_t position, int producer, ValueId number) {
    ASSIGN_OR_RETURN(ValueId bias, AsRow(number));
    Node node = graph_.nodes()[static_cast<size_t>(producer)];
    Epilogue* epilogue = MutableEpilogue(node);
    if (epilogue->bias) {
      ASSIGN_OR_RETURN(bias,
                       builder_.EmitOne(Op::kBinary, {node.inputs[2], bias},
                                        BinaryAttributes{}));
      node.inputs[2] = bias;
    } else {
      epilogue->bias = true;
      node.inputs.push_back(bias);
    }
    Settle(position, producer, std::move(node));
    return absl::OkStatus();
  }

  // Puts `node`, which now includes the work of `position`, at `producer`.
  void Settle(size_t position, int producer, Node node) {
    const ValueId y = graph_.nodes()[position].outputs[0];
    replaced_[static_cast<size_t>(y.index)] = node.outputs[0];
    drop_[position] = true;
    graph_.mutable_nodes()[static_cast<size_t>(producer)] = std::move(node);
  }

  absl::Status FoldInto(int producer, size_t position, const ChannelMap& map) {
    Node node = graph_.nodes()[static_cast<size_t>(producer)];
    Epilogue* epilogue = MutableEpilogue(node);
    ValueId weights = node.inputs[1];
    auto* matmul = std::get_if<MatMulAttributes>(&node.attributes);
    if (matmul != nullptr && !matmul->transpose_b) {
      // kFoldBatchNorm scales rows, so channels must be the rows of the
      // weights.
      ASSIGN_OR_RETURN(weights, builder_.EmitOne(Op::kTranspose, {weights},
                                                 TransposeAttributes{{1, 0}}));
      matmul->transpose_b = true;
    }
    ValueIds inputs{weights};
    inputs.insert(inputs.end(), map.parameters.begin(), map.parameters.end());
    if (epilogue->bias) inputs.push_back(node.inputs[2]);
    ASSIGN_OR_RETURN(const ValueIds folded,
                     builder_.Emit(Op::kFoldBatchNorm, inputs, map.attributes));
    epilogue->bias = true;
    node.inputs = {node.inputs[0], folded[0], folded[1]};
    Settle(position, producer, std::move(node));
    return absl::OkStatus();
  }

  // Folds a norm into a transposed convolution. Its channels are axis 1 of the
  // weights, and it has no bias, so a sum takes the place of the norm.
  absl::StatusOr<bool> FoldIntoTransposed(size_t position, const Node& norm,
                                          const ChannelMap& map) {
    const ValueId x = norm.inputs[0];
    const int producer = index_.producer(x);
    if (producer < 0 || index_.is_output(x) || index_.readers(x).size() != 1) {
      return false;
    }
    Node node = graph_.nodes()[static_cast<size_t>(producer)];
    if (node.op != Op::kConv2dInputGrad ||
        node.get<Conv2dGradAttributes>().conv.groups != 1 ||
        !IsKnownAtLoad(graph_.value(node.inputs[1]))) {
      return false;
    }
    const int rank = graph_.value(x).shape.rank();
    std::vector<int> swap(static_cast<size_t>(rank));
    for (int axis = 0; axis < rank; ++axis) {
      swap[static_cast<size_t>(axis)] = axis < 2 ? 1 - axis : axis;
    }
    ValueIds inputs{node.inputs[1]};
    ASSIGN_OR_RETURN(inputs[0], builder_.EmitOne(Op::kTranspose, inputs,
                                                 TransposeAttributes{swap}));
    inputs.insert(inputs.end(), map.parameters.begin(), map.parameters.end());
    ASSIGN_OR_RETURN(const ValueIds folded,
                     builder_.Emit(Op::kFoldBatchNorm, inputs, map.attributes));
    ASSIGN_OR_RETURN(node.inputs[1],
                     builder_.EmitOne(Op::kTranspose, {folded[0]},
                                      TransposeAttributes{swap}));
    ASSIGN_OR_RETURN(const ValueId shift, BesideChannels(folded[1], rank));
    graph_.mutable_nodes()[static_cast<size_t>(producer)] = std::move(node);
    Node& sum = graph_.mutable_nodes()[position];
    sum.op = Op::kBinary;
    sum.attributes = BinaryAttributes{};
    sum.inputs = {x, shift};
    return true;
  }

  Graph& graph_;
  GraphIndex index_;
  GraphBuilder builder_;
  std::vector<ValueId> replaced_;
  std::vector<bool> drop_;
  std::map<size_t, Node> inserted_;  // nodes to insert before a position
};

}  // namespace

absl::Status FoldBatchNorm(Graph& graph) {
  if (HasUpdates(graph)) return absl::OkStatus();
  return Folder(graph).Run();
}

}  // namespace gpupool::engine
