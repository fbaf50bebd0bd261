// The names of an ONNX graph during its import. Thread-safety: one thread at a
// time.
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

// The object of a name: a tensor, an initializer that was not read yet, a list
// of entries (a sequence), or nothing (an empty optional).
struct Entry {
  ValueId value;
  const onnx::TensorProto* stored = nullptr;
  std::shared_ptr<const std::vector<Entry>> sequence;
  // The type in the file (TensorProto.DataType) of an input or a constant,
  // whose value may have a wider one. 0: not known.
  int element_type = 0;

  static Entry Tensor(ValueId id, int element_type = 0) {
    Entry entry;
    entry.value = id;
    entry.element_type = element_type;
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

// Version by domain.
using OperatorSets = absl::flat_hash_map<std::string, int>;

class Scope {
 public:
  // Both must outlive the scope. A function's body has null as `outer`, since
  // it sees no names around it.
  Scope(const Scope* outer, const OperatorSets* operator_sets)
      : outer_(outer), operator_sets_(operator_sets) {}

  // Adds a name. It hides earlier definitions.
  void Define(absl::string_view name, Entry entry) {
    names_[name] = std::move(entry);
  }
  // Returns nullptr for an unknown name.
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
