// What the names of an ONNX graph stand for while it is imported. Not
// thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "engine/graph/graph.h"

namespace onnx {
class TensorProto;
}

namespace gpupool::engine::onnx_import {

// A tensor, an initializer that nobody has read yet, a list of entries (a
// sequence), or nothing (an empty optional).
struct Entry {
  ValueId value;
  const onnx::TensorProto* stored = nullptr;
  std::shared_ptr<const std::vector<Entry>> sequence;

  static Entry Tensor(ValueId id) {
    Entry entry;
    entry.value = id;
    return entry;
  }
  static Entry Sequence(std::vector<Entry> entries) {
    Entry entry;
    entry.sequence =
        std::make_shared<const std::vector<Entry>>(std::move(entries));
    return entry;
  }
  bool is_tensor() const { return value.valid() || stored != nullptr; }
  bool is_sequence() const { return sequence != nullptr; }
};

// Domain -> version.
using OperatorSets = absl::flat_hash_map<std::string, int>;

class Scope {
 public:
  // Both outlive the scope. A function's body sees nothing around it: `outer`
  // is null then.
  Scope(const Scope* outer, const OperatorSets* operator_sets)
      : outer_(outer), operator_sets_(operator_sets) {}

  // Later definitions hide earlier ones.
  void Define(absl::string_view name, Entry entry) {
    names_[name] = std::move(entry);
  }
  // nullptr when nothing has the name.
  const Entry* Find(absl::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
      const auto found = scope->names_.find(name);
      if (found != scope->names_.end()) return &found->second;
    }
    return nullptr;
  }
  const OperatorSets& operator_sets() const { return *operator_sets_; }

 private:
  const Scope* outer_;
  const OperatorSets* operator_sets_;
  absl::flat_hash_map<std::string, Entry> names_;
};

}  // namespace gpupool::engine::onnx_import
