#include "engine/passes/schedule/recompute.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/name_pattern.h"
#include "engine/base/status_macros.h"
#include "engine/passes/schedule/mark_aliases.h"
#include "engine/plan/memory_plan.h"

namespace gpupool::engine {
namespace {

// The most nodes that one value may cost to compute again.
constexpr size_t kMaxChain = 64;
// Values below this size are not worth recomputing.
constexpr uint64_t kMinBytes = 256;
// The most rungs of a ladder, and the share of its first peak that one frees.
constexpr size_t kMaxRungs = 400;
constexpr uint64_t kStrides = 64;

size_t At(ValueId id) { return static_cast<size_t>(id.index); }

// A training graph, divided at its first gradient node into a forward (early)
// and a backward (late) part.
class Checkpoints {
 public:
  explicit Checkpoints(const Graph& graph)
      : graph_(graph), index_(graph), border_(FirstGradient(graph)) {
    given_up_.assign(graph.values().size(), false);
    repeatable_.assign(graph.nodes().size(), true);
    stays_.assign(graph.values().size(), false);
  }

  bool has_gradients() const {
    return border_ < static_cast<int>(graph_.nodes().size());
  }

  // Gives up the values that the layers compute and that no forward node
  // outside of them reads.
  void GiveUpLayers(const std::vector<std::string>& patterns) {
    for (int i = 0; i < border_; ++i) {
      repeatable_[static_cast<size_t>(i)] = IsNamed(NodeAt(i), patterns);
    }
    for (int i = 0; i < border_; ++i) {
      if (!repeatable_[static_cast<size_t>(i)]) continue;
      for (const ValueId id : NodeAt(i).outputs) {
        stays_[At(id)] = LeavesRegion(id);
        given_up_[At(id)] = !stays_[At(id)] && MayGiveUp(id);
      }
    }
  }

  // Gives up values that live at `position`, those that free the most bytes per
  // FLOP first, until they free `bytes` in total. Returns false when none frees
  // any.
  bool GiveUp(int position, uint64_t bytes) {
    double freed = 0;
    while (freed < static_cast<double>(bytes)) {
      ValueId best;
      Gain best_gain;
      for (const Value& value : graph_.values()) {
        if (value.bytes() < kMinBytes || given_up_[At(value.id)] ||
            !MayGiveUp(value.id)) {
          continue;
        }
        const Gain gain = GainOf(value.id, position);
        if (gain.rate() > best_gain.rate()) {
          best_gain = gain;
          best = value.id;
        }
      }
      if (!best.valid()) break;
      given_up_[At(best)] = true;
      freed += best_gain.bytes;
    }
    return freed > 0;
  }

  const std::vector<bool>& given_up() const { return given_up_; }
  void set_given_up(std::vector<bool> values) { given_up_ = std::move(values); }

  // Returns the graph that recomputes the values that were given up. `origins`
  // receives for each node its position in the original graph; a repeated node
  // gets the position of its reader.
  Graph Rewrite(std::vector<int>* origins) const;

 private:
  friend class Rewriter;

  static int FirstGradient(const Graph& graph) {
    int position = 0;
    for (const Node& node : graph.nodes()) {
      for (const ValueId id : node.outputs) {
        if (graph.value(id).memory_class == MemoryClass::kGradient) {
          return position;
        }
      }
      ++position;
    }
    return position;
  }

  const Node& NodeAt(int position) const {
    return graph_.nodes()[static_cast<size_t>(position)];
  }

  static bool IsNamed(const Node& node,
                      const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&node](const std::string& p) {
                         return MatchesPattern(node.source, p);
                       });
  }

  bool IsLate(int position) const { return position >= border_; }

  bool IsReadLate(ValueId id) const {
    const auto readers = index_.readers(id);
    return !readers.empty() && IsLate(readers.back());
  }

  bool LeavesRegion(ValueId id) const {
    for (const int reader : index_.readers(id)) {
      if (!IsLate(reader) && !repeatable_[static_cast<size_t>(reader)]) {
        return true;
      }
    }
    return false;
  }

  bool MayRepeat(int position) const {
    if (position < 0 || IsLate(position)) return false;
    const Node& node = NodeAt(position);
    if (!repeatable_[static_cast<size_t>(position)] || !Info(node.op).pure ||
        node.stage != Stage::kStep) {
      return false;
    }
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [this](ValueId id) {
                         return graph_.value(id).alias.kind == AliasKind::kNone;
                       });
  }

  bool MayGiveUp(ValueId id) const {
    return !stays_[At(id)] && IsReadLate(id) && !index_.is_output(id) &&
           MayRepeat(index_.producer(id));
  }

  // Returns whether the backward pass can read the original, instead of a
  // recomputed copy.
  bool IsKept(ValueId id) const {
    if (!MayRepeat(index_.producer(id)) || stays_[At(id)]) return true;
    return IsReadLate(id) && !given_up_[At(id)];
  }

  // The nodes that compute `id` from kept values, by position, and the kept
  // values that they read.
  struct Chain {
    std::vector<int> nodes;
    ValueIds kept;
  };
  // Returns nothing when the chain has too many nodes.
  std::optional<Chain> ChainOf(ValueId id) const {
    Chain chain;
    std::vector<int> open{index_.producer(id)};
    while (!open.empty()) {
      const int position = open.back();
      open.pop_back();
      if (std::count(chain.nodes.begin(), chain.nodes.end(), position) > 0) {
        continue;
      }
      chain.nodes.push_back(position);
      if (chain.nodes.size() > kMaxChain) return std::nullopt;
      for (const ValueId input : NodeAt(position).inputs) {
        if (IsKept(input)) {
          chain.kept.push_back(input);
        } else {
          open.push_back(index_.producer(input));
        }
      }
    }
    return chain;
  }

  struct Gain {
    double bytes = 0;
    double flops = 1;

    double rate() const { return bytes / flops; }
  };
  // Returns the bytes that giving up the value frees at `position`, and its
  // cost.
  Gain GainOf(ValueId id, int position) const {
    const auto readers = index_.readers(id);
    const auto late = std::lower_bound(readers.begin(), readers.end(), border_);
    int last_early = index_.producer(id);
    if (late != readers.begin()) last_early = *std::prev(late);
    // The value lives there only because its late readers wait for it.
    if (position <= last_early || position >= *late) return {};
    const auto chain = ChainOf(id);
    if (!chain.has_value()) return {};
    // Kept inputs of the chain that were dead at `position` now live there.
    Gain gain{static_cast<double>(graph_.value(id).bytes())};
    for (const ValueId input : chain->kept) {
      const Value& value = graph_.value(input);
      if (value.kind == ValueKind::kIntermediate &&
          index_.readers(input).back() < position) {
        gain.bytes -= static_cast<double>(value.bytes());
      }
    }
    // Movement costs, too: one FLOP for every other float32 element.
    gain.flops += static_cast<double>(graph_.value(id).bytes()) / 8;
    for (const int node : chain->nodes) {
      gain.flops += static_cast<double>(NodeFlops(graph_, NodeAt(node)));
    }
    return gain;
  }

  const Graph& graph_;
  const GraphIndex index_;
  const int border_;              // position of the first gradient node
  std::vector<bool> given_up_;    // by value
  std::vector<bool> stays_;       // by value: never given up
  std::vector<bool> repeatable_;  // by node
};

// Copies the graph and inserts repeated nodes before their late readers.
class Rewriter {
 public:
  explicit Rewriter(const Checkpoints& plan)
      : plan_(plan), graph_(plan.graph_), copies_(graph_.values().size()) {}

  Graph Run(std::vector<int>* origins) {
    graph_.mutable_nodes().clear();
    int position = 0;
    for (const Node& node : plan_.graph_.nodes()) {
      Node copy = node;
      if (plan_.IsLate(position)) {
        for (ValueId& id : copy.inputs) {
          if (plan_.given_up_[At(id)]) id = Repeated(id);
        }
      }
      graph_.AddNode(std::move(copy));
      origins->resize(graph_.nodes().size(), position);
      ++position;
    }
    return std::move(graph_);
  }

 private:
  // Returns the copy of a value that was given up. Its nodes are added at the
  // first call.
  ValueId Repeated(ValueId id) {
    if (!copies_[At(id)].valid()) {
      Node node = plan_.NodeAt(plan_.index_.producer(id));
      for (ValueId& input : node.inputs) {
        if (!plan_.IsKept(input)) input = Repeated(input);
      }
      for (ValueId& output : node.outputs) {
        Value value = graph_.value(output);
        absl::StrAppend(&value.name, ":again");
        ValueId& copy = copies_[At(output)];
        copy = graph_.AddValue(std::move(value));
        output = copy;
      }
      graph_.AddNode(std::move(node));
    }
    return copies_[At(id)];
  }

  const Checkpoints& plan_;
  Graph graph_;
  std::vector<ValueId> copies_;  // by original value
};

Graph Checkpoints::Rewrite(std::vector<int>* origins) const {
  origins->clear();
  return Rewriter(*this).Run(origins);
}

// Returns the largest sum of live bytes and its place.
PeakMoment PeakOf(Graph graph) {
  graph.Compact();
  if (!MarkAliases(graph).ok()) return {};
  const Liveness liveness = AnalyseLiveness(graph);
  std::vector<PlanItem> items;
  for (const Buffer& buffer : liveness.buffers) {
    if (buffer.place == Place::kArena) {
      items.push_back({buffer.bytes, buffer.lifetime});
    }
  }
  return FindPeak(items);
}

}  // namespace

class RecomputeLadder::Impl {
 public:
  Impl(Graph graph, const std::vector<std::string>& layers)
      : graph_(std::move(graph)), checkpoints_(graph_) {
    if (checkpoints_.has_gradients() && !layers.empty()) {
      checkpoints_.GiveUpLayers(layers);
    }
    rungs_.push_back(checkpoints_.given_up());
  }

  std::optional<Graph> At(size_t rung) {
    while (rungs_.size() <= rung) {
      if (!Climb()) return std::nullopt;
    }
    checkpoints_.set_given_up(rungs_[rung]);
    std::vector<int> origins;
    Graph graph = checkpoints_.Rewrite(&origins);
    graph.Compact();
    return graph;
  }

 private:
  // Adds a rung. Returns false at the top.
  bool Climb() {
    if (!checkpoints_.has_gradients() || rungs_.size() >= kMaxRungs) {
      return false;
    }
    checkpoints_.set_given_up(rungs_.back());
    std::vector<int> origins;
    const PeakMoment peak = PeakOf(checkpoints_.Rewrite(&origins));
    if (stride_ == 0) stride_ = std::max<uint64_t>(peak.bytes / kStrides, 1);
    const size_t at =
        std::min(static_cast<size_t>(peak.position), origins.size() - 1);
    if (!checkpoints_.GiveUp(origins[at], stride_)) return false;
    rungs_.push_back(checkpoints_.given_up());
    return true;
  }

  const Graph graph_;
  Checkpoints checkpoints_;
  std::vector<std::vector<bool>> rungs_;  // values that each rung gives up
  uint64_t stride_ = 0;  // bytes that a rung frees; 0: not known yet
};

RecomputeLadder::RecomputeLadder(Graph graph,
                                 const std::vector<std::string>& layers)
    : impl_(std::make_unique<Impl>(std::move(graph), layers)) {}

RecomputeLadder::~RecomputeLadder() = default;

std::optional<Graph> RecomputeLadder::At(size_t rung) {
  return impl_->At(rung);
}

absl::Status Recompute(Graph& graph, const RecomputeOptions& options) {
  if (options.empty()) return absl::OkStatus();
  RecomputeLadder ladder(graph, options.layers);
  uint64_t best = std::numeric_limits<uint64_t>::max();
  for (size_t rung = 0;; ++rung) {
    std::optional<Graph> candidate = ladder.At(rung);
    if (!candidate.has_value()) break;
    const uint64_t bytes =
        options.budget_bytes > 0 ? PeakOf(*candidate).bytes : 0;
    if (bytes < best) {
      best = bytes;
      graph = *std::move(candidate);
    }
    if (bytes <= options.budget_bytes) break;
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
