#include "engine/import/onnx/graph/functions.h"

#include <onnx/defs/function.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/graph_importer.h"

namespace gpupool::engine::onnx_import {
namespace {

// Calls `function` and returns its exceptions as INVALID_ARGUMENT. libonnx's
// builders of function bodies throw.
template <typename Function>
auto WithoutExceptions(const onnx::NodeProto& node, Function function)
    -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(NodeTitle(node), ": ", error.what()));
  }
}

const onnx::OpSchema* FindSchema(absl::string_view domain,
                                 absl::string_view name, int opset) {
  return onnx::OpSchemaRegistry::Schema(std::string(name), opset,
                                        std::string(NormalDomain(domain)));
}

absl::StatusOr<onnx::TypeProto> TypeOf(GraphImporter& importer,
                                       const Entry* entry) {
  onnx::TypeProto type;
  if (entry == nullptr) return type;
  if (entry->is_sequence()) {
    type.mutable_sequence_type();
    if (!entry->sequence->empty()) {
      ASSIGN_OR_RETURN(*type.mutable_sequence_type()->mutable_elem_type(),
                       TypeOf(importer, &entry->sequence->front()));
    }
    return type;
  }
  if (!entry->is_tensor()) return type;
  ASSIGN_OR_RETURN(const ValueId id,
                   importer.Materialize(*entry, MemoryClass::kWeight));
  const Value& value = importer.values().value(id);
  type.mutable_tensor_type()->set_elem_type(OnnxType(value.dtype));
  auto* shape = type.mutable_tensor_type()->mutable_shape();
  for (int64_t dim : value.shape.dims()) shape->add_dim()->set_dim_value(dim);
  return type;
}

// Counts a node's attributes, including those of its subgraphs.
struct Census {
  int64_t attributes = 0;
  bool has_reference = false;

  void Add(const onnx::NodeProto& node) {
    attributes += node.attribute_size() + 1;
    for (const auto& attribute : node.attribute()) {
      has_reference |= !attribute.ref_attr_name().empty();
      if (attribute.has_g()) Add(attribute.g());
      for (const auto& graph : attribute.graphs()) Add(graph);
    }
  }
  void Add(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) Add(node);
  }
};

// The attributes that references in a function's body stand for.
class CallerAttributes {
 public:
  // `schema` may be null. Both must outlive the object.
  CallerAttributes(const onnx::NodeProto& caller, const onnx::OpSchema* schema)
      : schema_(schema) {
    for (const auto& attribute : caller.attribute()) {
      given_.try_emplace(attribute.name(), &attribute);
    }
  }

  // Returns the caller's attribute or its schema's default. Null when there is
  // none.
  const onnx::AttributeProto* Find(const std::string& name) const {
    const auto given = given_.find(name);
    if (given != given_.end()) return given->second;
    if (schema_ == nullptr) return nullptr;
    const auto declared = schema_->attributes().find(name);
    if (declared == schema_->attributes().end() ||
        !declared->second.default_value.has_name()) {
      return nullptr;
    }
    return &declared->second.default_value;
  }

 private:
  absl::flat_hash_map<absl::string_view, const onnx::AttributeProto*> given_;
  const onnx::OpSchema* schema_;
};

// Replaces references to attributes. Holds the bytes of every copy before it is
// made.
class Filling {
 public:
  Filling(const CallerAttributes& caller, ImportBudget& budget)
      : caller_(caller), budget_(budget) {}

  absl::Status Fill(onnx::NodeProto& node) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> filled;
    for (auto& attribute : *node.mutable_attribute()) {
      if (!attribute.ref_attr_name().empty()) {
        const auto* given = caller_.Find(attribute.ref_attr_name());
        // Without a value the attribute is absent.
        if (given == nullptr) continue;
        RETURN_IF_ERROR(budget_.Hold(given->SpaceUsedLong()));
        auto* copy = filled.Add();
        *copy = *given;
        copy->set_name(attribute.name());
        continue;
      }
      if (attribute.has_g()) RETURN_IF_ERROR(Fill(*attribute.mutable_g()));
      for (auto& graph : *attribute.mutable_graphs()) {
        RETURN_IF_ERROR(Fill(graph));
      }
      *filled.Add() = std::move(attribute);
    }
    node.mutable_attribute()->Swap(&filled);
    return absl::OkStatus();
  }

 private:
  absl::Status Fill(onnx::GraphProto& graph) {
    for (auto& node : *graph.mutable_node()) RETURN_IF_ERROR(Fill(node));
    return absl::OkStatus();
  }

  const CallerAttributes& caller_;
  ImportBudget& budget_;
};

}  // namespace

bool HasSchemaFunction(absl::string_view domain, absl::string_view name,
                       int opset) {
  const onnx::OpSchema* schema = FindSchema(domain, name, opset);
  return schema != nullptr &&
         (schema->HasFunction() || schema->HasContextDependentFunction());
}

absl::StatusOr<const onnx::FunctionProto*> SchemaFunction(
    GraphImporter& importer, const onnx::NodeProto& node, int opset) {
  const onnx::OpSchema* schema =
      FindSchema(node.domain(), node.op_type(), opset);
  if (schema == nullptr) return nullptr;
  if (schema->HasFunction()) return schema->GetFunction();
  if (!schema->HasContextDependentFunction()) return nullptr;
  std::vector<onnx::TypeProto> types;
  for (const std::string& input : node.input()) {
    ASSIGN_OR_RETURN(types.emplace_back(),
                     TypeOf(importer, importer.Find(input)));
  }
  auto body = std::make_unique<onnx::FunctionProto>();
  const absl::Status built = WithoutExceptions(node, [&]() -> absl::Status {
    const onnx::FunctionBodyBuildContextImpl context(node, types);
    if (schema->BuildContextDependentFunction(context, *body)) {
      return absl::OkStatus();
    }
    return absl::UnimplementedError(
        absl::StrCat(NodeTitle(node), ": this form is not supported"));
  });
  RETURN_IF_ERROR(built);
  return importer.Keep(std::move(body));
}

absl::StatusOr<const onnx::NodeProto*> FillAttributes(
    GraphImporter& importer, const onnx::NodeProto& inner,
    const onnx::NodeProto& caller) {
  ImportBudget& budget = importer.values().budget();
  Census census;
  census.Add(inner);
  // Counted before anything is copied, since subgraphs may be large.
  RETURN_IF_ERROR(budget.Visit(census.attributes));
  if (!census.has_reference) return &inner;
  RETURN_IF_ERROR(budget.Visit(caller.attribute_size()));
  const absl::string_view domain = NormalDomain(caller.domain());
  const auto version = importer.scope().operator_sets().find(domain);
  const onnx::OpSchema* schema =
      version == importer.scope().operator_sets().end()
          ? nullptr
          : FindSchema(domain, caller.op_type(), version->second);
  RETURN_IF_ERROR(budget.Hold(inner.SpaceUsedLong()));
  auto copy = std::make_unique<onnx::NodeProto>(inner);
  const CallerAttributes attributes(caller, schema);
  RETURN_IF_ERROR(Filling(attributes, budget).Fill(*copy));
  return importer.Keep(std::move(copy));
}

}  // namespace gpupool::engine::onnx_import
