#include "engine/import/onnx/graph/split_stage.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace gpupool::engine::onnx_import {
namespace {

class Splitter {
 public:
  Splitter(const StageParts& parts, const ModelGraph& model)
      : parts_(parts),
        whole_(model.graph),
        index_(whole_),
        depends_(whole_.values().size(), false),
        needed_(whole_.nodes().size(), false),
        taken_(whole_.values().size()) {
    for (const ModelPort& port : model.inputs) given_.insert(port.value.index);
    for (const Value& value : whole_.values()) {
      depends_[At(value.id)] = value.kind == ValueKind::kInput;
    }
    for (const Node& node : whole_.nodes()) {
      const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId id) { return Depends(id); });
      for (ValueId id : node.outputs) depends_[At(id)] = depends;
    }
  }

  // Returns whether an earlier stage made the value.
  bool IsPassedOn(ValueId id) const {
    if (!Depends(id)) return false;
    const int producer = index_.producer(id);
    return producer < 0 ? !given_.contains(id.index)
                        : static_cast<size_t>(producer) < parts_.first_node;
  }
  // Returns whether the stage computes the value.
  bool IsMade(ValueId id) const {
    return Depends(id) && index_.producer(id) >= 0 && !IsPassedOn(id);
  }

  // Marks the nodes that the value needs.
  void Need(ValueId wanted) {
    ValueIds open{wanted};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const int producer = index_.producer(id);
      if (producer < 0 || IsPassedOn(id)) continue;
      if (needed_[static_cast<size_t>(producer)]) continue;
      needed_[static_cast<size_t>(producer)] = true;
      const Node& node = whole_.nodes()[static_cast<size_t>(producer)];
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  void TakeNodes() {
    for (size_t i = 0; i < needed_.size(); ++i) {
      if (!needed_[i]) continue;
      Node node = whole_.nodes()[i];
      for (ValueIds* ids : {&node.inputs, &node.outputs}) {
        for (ValueId& id : *ids) id = Take(id);
      }
      stage_.AddNode(std::move(node));
    }
  }
  // Returns the value in the stage's graph.
  ValueId Take(ValueId id) {
    ValueId& taken = taken_[At(id)];
    if (taken.valid()) return taken;
    Value value = whole_.value(id);
    if (IsPassedOn(id)) {
      value.kind = ValueKind::kInput;
      value.memory_class = MemoryClass::kIo;
    }
    return taken = stage_.AddValue(std::move(value));
  }
  bool IsTaken(ValueId id) const { return taken_[At(id)].valid(); }
  const Value& value(ValueId id) const { return whole_.value(id); }
  Graph& stage() { return stage_; }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id.index); }
  bool Depends(ValueId id) const { return depends_[At(id)]; }

  const StageParts& parts_;
  const Graph& whole_;
  const GraphIndex index_;
  std::vector<bool> depends_;  // on inputs, by value
  std::vector<bool> needed_;   // by node
  std::vector<ValueId> taken_;
  absl::flat_hash_set<int32_t> given_;  // inputs of the model
  Graph stage_;
};

}  // namespace

std::vector<std::string> SplitStage(const StageParts& parts,
                                    ModelGraph& model) {
  Splitter splitter(parts, model);
  std::vector<StageOutput> outputs = parts.outputs;
  std::vector<std::string> kept;
  absl::flat_hash_set<int32_t> seen;
  for (ValueId id : parts.live) {
    if (!seen.insert(id.index).second) continue;
    const std::string& name = splitter.value(id).name;
    const bool made = splitter.IsMade(id);
    if (made) outputs.push_back({name, id});
    if (made || splitter.IsPassedOn(id)) kept.push_back(name);
  }
  for (const StageOutput& output : outputs) splitter.Need(output.value);
  splitter.TakeNodes();
  std::vector<ModelPort> inputs;
  for (ModelPort port : model.inputs) {
    if (!splitter.IsTaken(port.value)) continue;
    port.value = splitter.Take(port.value);
    inputs.push_back(std::move(port));
  }
  std::vector<ModelPort> ports;
  for (const auto& [name, id, declared, loop] : outputs) {
    const Value& value = splitter.value(id);
    ports.push_back({.name = name,
                     .value = splitter.Take(id),
                     .dtype = value.dtype,
                     .shape = value.shape,
                     .batched = false,
                     .declared = declared,
                     .loop = loop});
  }
  model.inputs = std::move(inputs);
  model.outputs = std::move(ports);
  std::vector<PersistentSpec>& persistents = model.persistents;
  absl::flat_hash_set<std::string> read;
  for (const Value& value : splitter.stage().values()) {
    if (value.kind == ValueKind::kPersistent) read.insert(value.name);
  }
  persistents.erase(std::remove_if(persistents.begin(), persistents.end(),
                                   [&](const PersistentSpec& spec) {
                                     return !read.contains(spec.name);
                                   }),
                    persistents.end());
  model.graph = std::move(splitter.stage());
  return kept;
}

}  // namespace gpupool::engine::onnx_import
