#include "engine/passes/formats/widen_halves.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

class Widener {
 public:
  Widener(const WidenOptions& options, Graph& graph)
      : options_(options), graph_(graph), builder_(&graph) {
    const GraphIndex index(graph);
    updaters_ = Updaters(graph);
    for (const Value& value : graph.values()) {
      const size_t at = At(value.id);
      stays_.push_back(!IsHalf(value.dtype) ||
                       (Stays(value, index) && updaters_[at] < 0));
    }
    old_ = std::move(graph.mutable_nodes());
    graph.mutable_nodes().clear();
    now_ = Identity(graph);
    casts_.resize(now_.size());
    for (size_t at = 0; at < stays_.size(); ++at) {
      if (stays_[at]) continue;
      graph.mutable_value(ValueId{static_cast<int32_t>(at)}).dtype =
          DType::kFloat32;
    }
  }

  absl::StatusOr<std::vector<ValueId>> Run() {
    for (Node& node : old_) RETURN_IF_ERROR(Visit(std::move(node)));
    return std::move(now_);
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id.index); }

  // Returns whether casts are all that reads the value, and something does.
  bool OnlyCastsRead(const Value& value, const GraphIndex& index) const {
    const auto readers = index.readers(value.id);
    return !readers.empty() &&
           std::all_of(readers.begin(), readers.end(), [this](int reader) {
             return graph_.nodes()[static_cast<size_t>(reader)].op == Op::kCast;
           });
  }

  bool Stays(const Value& value, const GraphIndex& index) const {
    switch (value.kind) {
      case ValueKind::kInput:
        return !options_.inputs;
      case ValueKind::kPersistent:
        return value.memory_class == MemoryClass::kState &&
               OnlyCastsRead(value, index);
      case ValueKind::kIntermediate: {
        if (options_.roundings || value.alias.kind != AliasKind::kNone) {
          return false;
        }
        const int producer = index.producer(value.id);
        return producer >= 0 &&
               graph_.nodes()[static_cast<size_t>(producer)].op == Op::kCast &&
               OnlyCastsRead(value, index);
      }
      default:
        return false;
    }
  }

  absl::Status Visit(Node node) {
    builder_.SetSource(node.source, node.region);
    if (node.op == Op::kCast) return VisitCast(std::move(node));
    for (ValueId& id : node.inputs) {
      ASSIGN_OR_RETURN(id, Wide(now_[At(id)]));
    }
    graph_.AddNode(std::move(node));
    return absl::OkStatus();
  }

  // Casts read any type. One that changes nothing vanishes.
  absl::Status VisitCast(Node node) {
    ValueId& from = node.inputs[0];
    from = now_[At(from)];
    Value& to = graph_.mutable_value(node.outputs[0]);
    if (IsHalf(node.get<CastAttributes>().dtype) && !IsHalf(to.dtype)) {
      node.attributes = CastAttributes{to.dtype};
    }
    // A value that is overwritten may be read later, so its copy is needed.
    const bool plain =
        to.alias.kind == AliasKind::kNone && updaters_[At(from)] < 0;
    if (plain && graph_.value(from).dtype == to.dtype) {
      now_[At(to.id)] = from;
      // No node writes it any more. An unused constant is dropped later.
      to.kind = ValueKind::kConstant;
      to.memory_class = MemoryClass::kIo;
      to.constant = {0};
      return absl::OkStatus();
    }
    graph_.AddNode(std::move(node));
    return absl::OkStatus();
  }

  // Returns a 16-bit value as float32, by a cast that is made once.
  absl::StatusOr<ValueId> Wide(ValueId id) {
    if (!IsHalf(graph_.value(id).dtype)) return id;
    ValueId& cast = casts_[At(id)];
    if (cast.valid()) return cast;
    ASSIGN_OR_RETURN(cast, builder_.EmitOne(Op::kCast, {id},
                                            CastAttributes{DType::kFloat32}));
    return cast;
  }

  const WidenOptions options_;
  Graph& graph_;
  GraphBuilder builder_;
  std::vector<Node> old_;
  // The vectors below are indexed by the values that existed before.
  std::vector<int> updaters_;
  std::vector<bool> stays_;
  std::vector<ValueId> now_;
  std::vector<ValueId> casts_;  // to float32
};

bool HasHalves(const Graph& graph) {
  return std::any_of(graph.values().begin(), graph.values().end(),
                     [](const Value& value) { return IsHalf(value.dtype); });
}

}  // namespace

absl::StatusOr<std::vector<ValueId>> WidenHalves(const WidenOptions& options,
                                                 Graph& graph) {
  if (!HasHalves(graph)) return Identity(graph);
  return Widener(options, graph).Run();
}

}  // namespace gpupool::engine
