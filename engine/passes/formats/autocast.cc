#include "engine/passes/formats/autocast.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/passes/rewrite/rewrite.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

// Returns whether the result may leave the range of 16 bits, or lose their
// precision, for ordinary arguments.
bool NeedsRange(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kExp:
    case UnaryFunction::kLog:
    case UnaryFunction::kReciprocal:
    case UnaryFunction::kTan:
    case UnaryFunction::kAsin:
    case UnaryFunction::kAcos:
    case UnaryFunction::kSinh:
    case UnaryFunction::kCosh:
    case UnaryFunction::kSoftplus:
      return true;
    default:
      return false;
  }
}

// Returns the same for the function that the node carries.
bool NeedsRange(const Node& node) {
  switch (node.op) {
    case Op::kUnary:
      return NeedsRange(node.get<UnaryAttributes>().function);
    case Op::kBinary:
      return node.get<BinaryAttributes>().function == BinaryFunction::kPower;
    case Op::kReduce: {
      const ReduceFunction function = node.get<ReduceAttributes>().function;
      return function != ReduceFunction::kMax &&
             function != ReduceFunction::kMin;
    }
    default:
      return false;
  }
}

AutocastRule RuleOf(const Node& node) {
  return NeedsRange(node) ? AutocastRule::kWide : Info(node.op).autocast;
}

bool IsGather(Op op) {
  return op == Op::kGather || op == Op::kGatherElements || op == Op::kGatherNd;
}

// Returns whether the op is a norm, of which only x is cast.
bool IsNorm(Op op) {
  return op == Op::kBatchNormTraining || op == Op::kBatchNormInference ||
         op == Op::kLayerNorm;
}

class Autocaster {
 public:
  Autocaster(Graph& graph, DType low)
      : graph_(graph),
        low_(low),
        old_(std::move(graph.mutable_nodes())),
        builder_(&graph) {
    graph.mutable_nodes().clear();
    for (const Value& value : graph.values()) {
      original_.push_back(value.dtype);
      votes_.push_back(VoteOf(value));
    }
    casts_.resize(original_.size());
  }

  absl::Status Run() {
    for (Node& node : old_) RETURN_IF_ERROR(Visit(std::move(node)));
    builder_.SetSource("", -1);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId id = graph_.outputs()[i].value;
      ASSIGN_OR_RETURN(graph_.mutable_outputs()[i].value,
                       Version(id, original_[At(id)]));
    }
    return absl::OkStatus();
  }

 private:
  // The influence of a value on the type of an op that follows its operands.
  enum class Vote : uint8_t {
    kNone,  // depends only on weights and constants
    kLow,
    kWide,
  };

  static size_t At(ValueId id) { return static_cast<size_t>(id.index); }

  Vote VoteOf(const Value& value) const {
    if (!IsKnownAtLoad(value)) return Vote::kWide;
    if (value.kind != ValueKind::kConstant) return Vote::kNone;
    // A constant that would become infinite in 16 bits keeps its op in float32.
    const bool fits = std::all_of(
        value.constant.begin(), value.constant.end(), [this](double x) {
          return !std::isfinite(x) || std::isfinite(RoundToDType(low_, x));
        });
    return fits ? Vote::kNone : Vote::kWide;
  }

  bool IsFloat(ValueId id) const { return IsFloating(original_[At(id)]); }

  // Returns whether all floating-point operands and results are float32, so
  // that a choice exists.
  bool TakesPart(const Node& node) const {
    if (node.stage != Stage::kStep || node.op == Op::kCast) return false;
    for (const ValueIds* ids : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *ids) {
        if (IsFloat(id) && original_[At(id)] != DType::kFloat32) return false;
        if (graph_.value(id).alias.kind == AliasKind::kUpdate) return false;
      }
    }
    return true;
  }

  // Votes are ordered: the widest one wins.
  Vote VoteOfInputs(const Node& node) const {
    if (IsNorm(node.op)) return votes_[At(node.inputs[0])];
    Vote vote = Vote::kNone;
    for (const ValueId id : node.inputs) {
      if (IsFloat(id)) vote = std::max(vote, votes_[At(id)]);
    }
    return vote;
  }

  bool HasUnknownInput(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return votes_[At(id)] != Vote::kNone;
    });
  }

  absl::Status Visit(Node node) {
    builder_.SetSource(node.source, node.region);
    if (!TakesPart(node)) return KeepTypes(std::move(node));
    const Vote inputs = VoteOfInputs(node);
    AutocastRule rule = RuleOf(node);
    if (rule == AutocastRule::kFollow) {
      rule = inputs == Vote::kLow ? AutocastRule::kLow : AutocastRule::kWide;
    }
    const DType wanted = rule == AutocastRule::kLow ? low_ : DType::kFloat32;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId& id = node.inputs[i];
      if (!IsFloat(id)) continue;
      const bool side = i > 0 && IsNorm(node.op);
      ASSIGN_OR_RETURN(id, Version(id, side ? DType::kFloat32 : wanted));
    }
    // The vote means nothing for integers and bool, which IsFloat skips.
    Vote vote = rule == AutocastRule::kLow ? Vote::kLow : Vote::kWide;
    // Nodes of weights and constants only pass on that they have no vote, so
    // the op that reads them decides. A gather of weights votes for 16 bits.
    if (inputs == Vote::kNone && RuleOf(node) != AutocastRule::kLow) {
      const bool known = !HasUnknownInput(node);
      if (known) vote = Vote::kNone;
      if (!known && IsGather(node.op)) vote = Vote::kLow;
    }
    ASSIGN_OR_RETURN(
        const TensorTypes types,
        InferTypes(node.op, node.attributes, graph_.InputTypes(node)));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph_.mutable_value(node.outputs[i]).dtype = types[i].dtype;
      votes_[At(node.outputs[i])] = vote;
    }
    graph_.AddNode(std::move(node));
    return absl::OkStatus();
  }

  // Adds a node that the choice does not concern. Casts of the model read their
  // operand in whatever type it has now; other nodes read the original type.
  absl::Status KeepTypes(Node node) {
    for (ValueId& id : node.inputs) {
      if (node.op == Op::kCast) continue;
      ASSIGN_OR_RETURN(id, Version(id, original_[At(id)]));
    }
    for (const ValueId id : node.outputs) {
      const bool known = node.stage == Stage::kLoad || !HasUnknownInput(node);
      votes_[At(id)] = known ? Vote::kNone : Vote::kWide;
    }
    graph_.AddNode(std::move(node));
    return absl::OkStatus();
  }

  // Returns the value as `dtype`: itself, or a cast that is made only once.
  absl::StatusOr<ValueId> Version(ValueId id, DType dtype) {
    const Value& value = graph_.value(id);
    if (value.dtype == dtype) return id;
    ValueId& cast = casts_[At(id)];
    if (cast.valid()) return cast;
    if (value.kind == ValueKind::kConstant) {
      std::vector<double> numbers = value.constant;
      for (double& x : numbers) x = RoundToDType(dtype, x);
      return cast = builder_.Constant({dtype, value.shape}, std::move(numbers));
    }
    ASSIGN_OR_RETURN(cast,
                     builder_.EmitOne(Op::kCast, {id}, CastAttributes{dtype}));
    return cast;
  }

  Graph& graph_;
  const DType low_;
  std::vector<Node> old_;
  GraphBuilder builder_;
  // The vectors below are indexed by the values that existed before.
  std::vector<DType> original_;
  std::vector<Vote> votes_;
  std::vector<ValueId> casts_;  // its cast to the other of the two types
};

}  // namespace

absl::Status Autocast(Graph& graph, DType low) {
  GPUPOOL_CHECK(low == DType::kBFloat16 || low == DType::kFloat16);
  return Autocaster(graph, low).Run();
}

}  // namespace gpupool::engine
