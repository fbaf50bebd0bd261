#include "engine/graph/builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"

namespace gpupool::engine {

GraphBuilder::GraphBuilder(Graph* graph) : graph_(graph) {
  for (const Value& value : graph->values()) names_[value.name] = value.id;
}

void GraphBuilder::SetSource(absl::string_view source, int region) {
  source_ = std::string(source);
  region_ = region;
}

// Returns the value of that name, adding it if it is new. Programs share values
// by name, so a second type is refused.
absl::StatusOr<ValueId> GraphBuilder::Named(Value value) {
  const auto taken = names_.find(value.name);
  if (taken == names_.end()) {
    const std::string name = value.name;
    return names_[name] = graph_->AddValue(std::move(value));
  }
  const Value& found = graph_->value(taken->second);
  if (found.kind == value.kind && found.type() == value.type()) {
    return found.id;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the name '", value.name, "' stands for ", found.shape.ToString(),
      " and for ", value.shape.ToString(), "; rename a layer"));
}

absl::StatusOr<ValueId> GraphBuilder::Input(absl::string_view name,
                                            TensorType type) {
  return Named({.name = std::string(name),
                .dtype = type.dtype,
                .shape = type.shape,
                .kind = ValueKind::kInput,
                .memory_class = MemoryClass::kIo});
}

absl::StatusOr<ValueId> GraphBuilder::Persistent(absl::string_view name,
                                                 TensorType type,
                                                 MemoryClass memory_class) {
  return Named({.name = std::string(name),
                .dtype = type.dtype,
                .shape = type.shape,
                .kind = ValueKind::kPersistent,
                .memory_class = memory_class});
}

absl::Status GraphBuilder::Rename(ValueId id, const std::string& name) {
  Value& value = graph_->mutable_value(id);
  if (value.name == name) return absl::OkStatus();
  if (!names_.emplace(name, id).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name '", name, "' is taken, but '", value.name,
                     "' should get it; rename a layer or an input"));
  }
  names_.erase(value.name);
  value.name = name;
  return absl::OkStatus();
}

ValueId GraphBuilder::Constant(TensorType type, std::vector<double> numbers) {
  GPUPOOL_CHECK(numbers.size() == 1 ||
                numbers.size() == static_cast<size_t>(type.shape.elements()));
  return AddFresh("constant", {.dtype = type.dtype,
                               .shape = type.shape,
                               .kind = ValueKind::kConstant,
                               .memory_class = MemoryClass::kIo,
                               .constant = std::move(numbers)});
}

absl::StatusOr<ValueIds> GraphBuilder::Emit(Op op,
                                            absl::Span<const ValueId> inputs,
                                            Attributes attributes) {
  TensorTypes input_types;
  for (ValueId id : inputs) input_types.push_back(graph_->value(id).type());
  absl::StatusOr<TensorTypes> types = InferTypes(op, attributes, input_types);
  if (!types.ok()) {
    if (source_.empty()) return types.status();
    return AtPlace(absl::StrCat("layer '", source_, "'"), types.status());
  }
  Node node{.op = op,
            .attributes = std::move(attributes),
            .inputs = ValueIds(inputs.begin(), inputs.end()),
            .source = source_,
            .region = region_,
            .stage = stage_};
  const bool load = stage_ == Stage::kLoad;
  for (const TensorType& type : *types) {
    node.outputs.push_back(AddFresh(
        OpName(op),
        {.dtype = type.dtype,
         .shape = type.shape,
         .kind = load ? ValueKind::kDerived : ValueKind::kIntermediate,
         .memory_class = load ? MemoryClass::kWeight : memory_class_}));
  }
  ValueIds outputs = node.outputs;
  graph_->AddNode(std::move(node));
  return outputs;
}

absl::StatusOr<ValueId> GraphBuilder::EmitOne(Op op,
                                              absl::Span<const ValueId> inputs,
                                              Attributes attributes) {
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   Emit(op, inputs, std::move(attributes)));
  return outputs[0];
}

absl::Status GraphBuilder::Update(ValueId value, ValueId persistent) {
  const Value& old = graph_->value(persistent);
  Value& updated = graph_->mutable_value(value);
  if (old.kind != ValueKind::kPersistent || old.type() != updated.type()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", updated.name, "' ", updated.shape.ToString(),
        " cannot overwrite '", old.name, "' ", old.shape.ToString()));
  }
  updated.alias = {AliasKind::kUpdate, persistent};
  updated.memory_class = old.memory_class;
  return absl::OkStatus();
}

// Adds a value named "<layer>/<what>.<n>". Such names are readable and differ
// from those of weights, which have no slash before the layer's name ends.
ValueId GraphBuilder::AddFresh(absl::string_view what, Value value) {
  do {
    value.name = absl::StrCat(source_, source_.empty() ? "" : "/", what, ".",
                              next_name_++);
  } while (names_.contains(value.name));
  const std::string name = value.name;
  return names_[name] = graph_->AddValue(std::move(value));
}

}  // namespace gpupool::engine
