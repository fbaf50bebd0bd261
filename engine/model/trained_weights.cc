#include "engine/model/trained_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/name_pattern.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

constexpr size_t kSuggestions = 3;

using Patterns = google::protobuf::RepeatedPtrField<std::string>;

bool IsPersistent(const Value& value, MemoryClass memory_class) {
  return value.kind == ValueKind::kPersistent &&
         value.memory_class == memory_class;
}

std::vector<std::string> NamesOf(const Graph& graph, MemoryClass memory_class) {
  std::vector<std::string> names;
  for (const Value& value : graph.values()) {
    if (IsPersistent(value, memory_class)) names.push_back(value.name);
  }
  return names;
}

// The choice of a job among the weights of a model.
class Choice {
 public:
  Choice(const v1::TrainingSpec& training, const ModelGraph& model)
      : training_(training) {
    for (const PersistentSpec& spec : model.persistents) {
      if (spec.memory_class != MemoryClass::kWeight) continue;
      (spec.buffer ? buffers_ : parameters_).push_back(spec.name);
    }
  }

  bool Takes(const std::string& name) const {
    if (MatchesAny(name, training_.freeze())) return false;
    const Patterns& trainable = training_.trainable();
    if (std::find(buffers_.begin(), buffers_.end(), name) == buffers_.end()) {
      return trainable.empty() || MatchesAny(name, trainable);
    }
    return std::any_of(
        trainable.begin(), trainable.end(), [&](const std::string& pattern) {
          return MatchesPattern(name, pattern) && MeansBuffers(pattern);
        });
  }

 private:
  // Returns whether no parameter matches. Patterns such as "layer4.*" mean
  // parameters and leave the buffers among them alone.
  bool MeansBuffers(const std::string& pattern) const {
    return std::none_of(
        parameters_.begin(), parameters_.end(),
        [&](const std::string& name) { return MatchesPattern(name, pattern); });
  }

  const v1::TrainingSpec& training_;
  std::vector<std::string> parameters_;
  std::vector<std::string> buffers_;
};

// Tells for each value whether the loss is computed from it through floating
// numbers.
std::vector<bool> Influences(const Graph& graph, ValueId loss) {
  std::vector<bool> influences(graph.values().size(), false);
  const auto at = [](ValueId id) { return static_cast<size_t>(id.index); };
  influences[at(loss)] = true;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend();
       ++node) {
    const bool any =
        std::any_of(node->outputs.begin(), node->outputs.end(),
                    [&](ValueId id) { return influences[at(id)]; });
    if (!any) continue;
    for (ValueId id : node->inputs) {
      if (IsFloating(graph.value(id).dtype)) influences[at(id)] = true;
    }
  }
  return influences;
}

// Drops the updates of frozen running statistics.
void FreezeStatistics(const Patterns& freeze, Graph& graph) {
  const size_t count = graph.values().size();
  for (size_t i = 0; i < count; ++i) {
    Value& value = graph.mutable_value(ValueId{static_cast<int32_t>(i)});
    if (value.alias.kind != AliasKind::kUpdate) continue;
    const Value& updated = graph.value(value.alias.of);
    if (IsPersistent(updated, MemoryClass::kState) &&
        MatchesAny(updated.name, freeze)) {
      value.alias = {};
    }
  }
}

}  // namespace

bool MatchesAny(absl::string_view name, const Patterns& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](const std::string& pattern) {
                       return MatchesPattern(name, pattern);
                     });
}

std::vector<std::string> WeightNames(const Graph& graph) {
  return NamesOf(graph, MemoryClass::kWeight);
}

absl::Status CheckPatterns(absl::string_view field, const Patterns& patterns,
                           const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    const bool used = std::any_of(
        names.begin(), names.end(),
        [&](const std::string& name) { return MatchesPattern(name, pattern); });
    if (used) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "training.", field, ": no weight is named '", pattern,
        "'; close names are ", ClosestNames(pattern, names, kSuggestions),
        ", and '*' stands for any characters"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> SelectTrained(
    const v1::TrainingSpec& training, ValueId loss, ModelGraph& model) {
  Graph& graph = model.graph;
  std::vector<std::string> names = WeightNames(graph);
  if (names.empty()) {
    return absl::InvalidArgumentError(
        "the model has no weights; there is nothing to train");
  }
  RETURN_IF_ERROR(CheckPatterns("trainable", training.trainable(), names));
  // Statistics can be frozen but not trained.
  for (std::string& name : NamesOf(graph, MemoryClass::kState)) {
    names.push_back(std::move(name));
  }
  RETURN_IF_ERROR(CheckPatterns("freeze", training.freeze(), names));
  FreezeStatistics(training.freeze(), graph);
  const Choice choice(training, model);
  const std::vector<bool> influences = Influences(graph, loss);
  std::vector<ValueId> trained;
  for (const Value& value : graph.values()) {
    if (!IsPersistent(value, MemoryClass::kWeight)) continue;
    if (!choice.Takes(value.name)) continue;
    if (influences[static_cast<size_t>(value.id.index)]) {
      trained.push_back(value.id);
    } else {
      model.warnings.push_back(
          absl::StrCat("the loss does not depend on '", value.name,
                       "', which therefore is not trained"));
    }
  }
  if (!trained.empty()) return trained;
  return absl::InvalidArgumentError(
      "training.trainable and training.freeze leave no weight to train");
}

std::string AverageName(const std::string& weight) { return weight + "/ema"; }

std::string AccumulatorName(const std::string& weight) {
  return weight + "/grad";
}

}  // namespace gpupool::engine
