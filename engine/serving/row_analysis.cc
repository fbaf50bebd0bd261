#include "engine/serving/row_analysis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/serving/row_rules.h"

namespace gpupool::engine {
namespace {

using Kind = RowFacts::Kind;

std::string NodeText(const Node& node) {
  if (node.source.empty()) return std::string(OpName(node.op));
  return absl::StrCat("'", node.source, "' (", OpName(node.op), ")");
}

// Returns the node that writes the value, or the value's own name.
std::string WriterText(const Graph& graph, ValueId id) {
  const int writer = GraphIndex(graph).producer(id);
  if (writer >= 0) return NodeText(graph.nodes()[static_cast<size_t>(writer)]);
  return absl::StrCat("'", graph.value(id).name, "'");
}

RowFacts FactsBefore(const Value& value, int64_t batch) {
  if (value.kind == ValueKind::kConstant) {
    return {.kind = Kind::kSame, .even = EvenAxes(value)};
  }
  if (value.kind == ValueKind::kPersistent) return {.kind = Kind::kSame};
  if (value.kind != ValueKind::kInput) return {};
  return {.kind = Kind::kRows, .inner = value.shape.elements() / batch};
}

// Returns the facts of every value.
std::vector<RowFacts> AllFacts(const Graph& graph, int64_t batch) {
  std::vector<RowFacts> facts;
  for (const Value& value : graph.values()) {
    facts.push_back(FactsBefore(value, batch));
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const std::vector<RowFacts> outputs =
        OutputFacts(graph, static_cast<int>(i), batch, facts);
    const Node& node = graph.nodes()[i];
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      facts[static_cast<size_t>(node.outputs[o].index)] = outputs[o];
    }
  }
  return facts;
}

// Returns whether the rows of an output are its first dimension.
bool HasRowsInFront(const RowFacts& facts, const Shape& shape, int64_t batch) {
  if (shape.rank() == 0 || shape[0] != batch) return false;
  if (facts.kind == Kind::kSame) return (facts.even & 1u) != 0;
  return facts.kind == Kind::kRows && facts.outer == 1 &&
         facts.inner == shape.elements() / batch;
}

std::optional<std::string> ObstacleIn(const Graph& graph,
                                      const std::vector<RowFacts>& facts,
                                      int64_t batch) {
  for (const GraphOutput& output : graph.outputs()) {
    const RowFacts& at = facts[static_cast<size_t>(output.value.index)];
    if (HasRowsInFront(at, graph.value(output.value).shape, batch)) continue;
    if (at.kind == Kind::kMixed && at.node >= 0) {
      return NodeText(graph.nodes()[static_cast<size_t>(at.node)]);
    }
    return WriterText(graph, output.value);
  }
  return std::nullopt;
}

// Returns the values on which outputs depend.
std::vector<bool> NeededValues(const Graph& graph) {
  std::vector<bool> needed(graph.values().size(), false);
  const auto need = [&](ValueId id) {
    needed[static_cast<size_t>(id.index)] = true;
  };
  for (const GraphOutput& output : graph.outputs()) need(output.value);
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const bool used = std::any_of(
        node.outputs.begin(), node.outputs.end(),
        [&](ValueId id) { return needed[static_cast<size_t>(id.index)]; });
    if (used) std::for_each(node.inputs.begin(), node.inputs.end(), need);
  }
  return needed;
}

// A value in the graph for one batch.
struct Sight {
  const Value& value;
  const RowFacts& facts;
  int64_t batch;
};

// Returns whether the shapes differ at most in the axis that holds the rows, or
// in even axes.
bool ShapesAgree(const Sight& a, const Sight& b) {
  const Shape& one = a.value.shape;
  const Shape& other = b.value.shape;
  if (a.facts.kind != b.facts.kind || one.rank() != other.rank()) return false;
  std::optional<RowAxis> rows;
  if (a.facts.kind == Kind::kRows) {
    if (a.facts != b.facts) return false;
    rows = FindRowAxis(a.facts, one, a.batch);
    // Only ops that look at no axes read such values.
    if (!rows.has_value()) return true;
  }
  for (int axis = 0; axis < one.rank(); ++axis) {
    if (one[axis] == other[axis] || (rows && rows->axis == axis)) continue;
    const uint32_t bit = AxisBit(axis);
    if (rows || (a.facts.even & b.facts.even & bit) == 0) return false;
  }
  return true;
}

// Returns the numbers of a constant whose shape may be longer than `shape` in
// even axes only.
std::vector<double> NumbersWithin(const Value& value, const Shape& shape) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    int64_t at = 0;
    int64_t stride = 1;
    for (int axis = shape.rank(); axis-- > 0;) {
      const int64_t cell = rest % shape[axis];
      rest /= shape[axis];
      at += std::min(cell, value.shape[axis] - 1) * stride;
      stride *= value.shape[axis];
    }
    numbers.push_back(value.constant[static_cast<size_t>(at)]);
  }
  return numbers;
}

bool NumbersAgree(const Value& a, const Value& b) {
  if (a.kind != ValueKind::kConstant) return true;
  if (a.shape.elements() == 0 || b.shape.elements() == 0) return true;
  const auto equal = [](double x, double y) {
    return x == y || (std::isnan(x) && std::isnan(y));
  };
  // One number may stand for all elements.
  if (a.constant.size() == 1 || b.constant.size() == 1) {
    const auto& numbers = a.constant.size() == 1 ? b.constant : a.constant;
    const double fill = (a.constant.size() == 1 ? a : b).constant[0];
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](double x) { return equal(x, fill); });
  }
  const std::vector<double> part =
      a.shape == b.shape ? b.constant : NumbersWithin(b, a.shape);
  return std::equal(a.constant.begin(), a.constant.end(), part.begin(),
                    part.end(), equal);
}

bool ValuesAgree(const Sight& a, const Sight& b) {
  return a.value.kind == b.value.kind && a.value.dtype == b.value.dtype &&
         ShapesAgree(a, b) && NumbersAgree(a.value, b.value);
}

bool NodesAgree(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.outputs == b.outputs &&
         ComputeTheSame(a, b);
}

// The graph of a model for one batch.
struct GraphSight {
  const Graph& graph;
  const std::vector<RowFacts>& facts;
  int64_t batch;

  Sight value(ValueId id) const {
    return {graph.value(id), facts[static_cast<size_t>(id.index)], batch};
  }
};

// Returns the first difference between what two graphs compute. Their nodes and
// values have the same positions, unless the batch decides what is computed.
std::optional<std::string> FindDifference(const GraphSight& a,
                                          const GraphSight& b) {
  if (a.graph.nodes().size() != b.graph.nodes().size() ||
      a.graph.values().size() != b.graph.values().size()) {
    return "a node that only some batches have";
  }
  const std::vector<bool> needed = NeededValues(a.graph);
  for (size_t i = 0; i < a.graph.nodes().size(); ++i) {
    const Node& node = a.graph.nodes()[i];
    const bool used = std::any_of(
        node.outputs.begin(), node.outputs.end(),
        [&](ValueId id) { return needed[static_cast<size_t>(id.index)]; });
    if (!used) continue;
    bool agree = NodesAgree(node, b.graph.nodes()[i]);
    for (const ValueIds* ids : {&node.inputs, &node.outputs}) {
      for (ValueId id : *ids) {
        agree = agree && ValuesAgree(a.value(id), b.value(id));
      }
    }
    if (!agree) return NodeText(node);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindRowObstacle(const ModelGraph& model,
                                           int64_t batch) {
  return ObstacleIn(model.graph, AllFacts(model.graph, batch), batch);
}

void RowAnalysis::Add(const ModelGraph& model, int64_t batch,
                      const std::vector<int64_t>& sizes) {
  if (obstacle_.has_value()) return;
  std::vector<RowFacts> facts = AllFacts(model.graph, batch);
  obstacle_ = ObstacleIn(model.graph, facts, batch);
  if (obstacle_.has_value()) return;
  if (!first_.has_value()) {
    first_ = Sample{batch, sizes, model.graph, std::move(facts)};
  } else if (first_->sizes == sizes) {
    compared_ = true;
    obstacle_ = FindDifference({model.graph, facts, batch},
                               {first_->graph, first_->facts, first_->batch});
  }
}

}  // namespace gpupool::engine
