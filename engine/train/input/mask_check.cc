#include "engine/train/input/mask_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/transform/token_mask.h"
#include "engine/data/transform/transform_check.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using RandomMask = v1::Transform::RandomMask;

// Returns whether the result has the numbers of the node's input.
bool KeepsNumbers(const Node& node) {
  return node.op == Op::kReshape || node.op == Op::kTranspose ||
         node.op == Op::kCast;
}

// Returns the nodes that select by the numbers of `tokens`.
std::vector<const Node*> Selections(const Graph& graph, ValueId tokens) {
  std::vector<bool> same(graph.values().size(), false);
  same[static_cast<size_t>(tokens.index)] = true;
  const auto is_same = [&](ValueId id) {
    return same[static_cast<size_t>(id.index)];
  };
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes()) {
    if (KeepsNumbers(node) && is_same(node.inputs[0])) {
      same[static_cast<size_t>(node.outputs[0].index)] = true;
    }
    if (node.op == Op::kGather && is_same(node.inputs[1])) {
      found.push_back(&node);
    }
  }
  return found;
}

// Checks that a table with this number of entries has all tokens.
absl::Status CheckTable(const RandomMask& mask, const std::string& table,
                        int64_t entries) {
  const MaskShares shares(mask);
  if (shares.masked > 0 && mask.mask_token() >= entries) {
    return Refuse("mask_token is ", mask.mask_token(), ", but ", table, " has ",
                  entries, " entries, for the tokens 0 to ", entries - 1,
                  "; set mask_token to one of them, or give it ",
                  mask.mask_token() + 1, " entries");
  }
  if (shares.drawn > 0 && mask.vocabulary() > static_cast<uint64_t>(entries)) {
    return Refuse("vocabulary is ", mask.vocabulary(), ", but ", table, " has ",
                  entries, " entries; set vocabulary to at most ", entries,
                  ", or give it ", mask.vocabulary(), " entries");
  }
  return absl::OkStatus();
}

absl::Status CheckMaskOf(const v1::Transform& transform,
                         const ModelGraph& model) {
  const auto input = std::find_if(
      model.inputs.begin(), model.inputs.end(),
      [&](const ModelPort& one) { return IsForInput(transform, one.name); });
  if (input == model.inputs.end()) return absl::OkStatus();
  const Value* const tokens = model.graph.FindValue(input->name);
  if (tokens == nullptr) return absl::OkStatus();
  for (const Node* node : Selections(model.graph, tokens->id)) {
    const Value& table = model.graph.value(node->inputs[0]);
    RETURN_IF_ERROR(CheckTable(transform.random_mask(),
                               absl::StrCat("the model's '", table.name, "'"),
                               table.shape[node->get<AxisAttributes>().axis]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMaskTokens(const v1::DataSpec& data,
                             const ModelGraph& model) {
  for (int i = 0; i < data.transforms_size(); ++i) {
    const v1::Transform& transform = data.transforms(i);
    if (!transform.has_random_mask()) continue;
    RETURN_IF_ERROR(
        AtPlace(TransformPlace(i, transform), CheckMaskOf(transform, model)));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
