#include "engine/import/onnx/text/text_graph.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/text/text_constants.h"
#include "engine/import/onnx/text/text_node.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::ValueInfoProto;

// A value before the constants are counted.
struct TextValue {
  enum class Kind { kInput, kConstant, kNode };
  Kind kind = Kind::kInput;
  uint32_t index = 0;  // among those of its kind
};

class TextBuilder {
 public:
  TextBuilder(const OnnxFile& file, const v1::OnnxModel& model)
      : file_(file), graph_(file.model().graph()) {
    unbatched_.insert(model.unbatched_inputs().begin(),
                      model.unbatched_inputs().end());
  }

  absl::StatusOr<v1::Plan> Build() {
    for (const auto& tensor : graph_.initializer()) {
      ASSIGN_OR_RETURN(v1::TextTensor constant,
                       TextConstant(tensor, file_.external()));
      Define(tensor.name(), AddConstant(std::move(constant)));
    }
    FindInputs();
    for (const onnx::NodeProto& node : graph_.node()) {
      RETURN_IF_ERROR(AddNode(node));
    }
    RETURN_IF_ERROR(AddPorts());
    Number();
    const uint64_t bytes = plan_.text().ByteSizeLong();
    if (bytes <= kMaxTextProgramBytes) return std::move(plan_);
    return absl::InvalidArgumentError(
        absl::StrCat("the texts and tables of the model have ", bytes,
                     " bytes; the limit is ", kMaxTextProgramBytes,
                     "; serve a smaller vocabulary"));
  }

 private:
  v1::TextProgram& program() { return *plan_.mutable_text(); }
  void Define(const std::string& name, TextValue value) {
    values_[name] = value;
  }
  TextValue AddConstant(v1::TextTensor constant) {
    *program().add_constants() = std::move(constant);
    return {TextValue::Kind::kConstant,
            static_cast<uint32_t>(program().constants_size() - 1)};
  }

  // Inputs with an initializer are constants.
  void FindInputs() {
    for (const ValueInfoProto& input : graph_.input()) {
      if (values_.contains(input.name())) continue;
      Define(input.name(),
             {TextValue::Kind::kInput, static_cast<uint32_t>(inputs_.size())});
      inputs_.push_back(&input);
    }
  }

  absl::Status AddNode(const onnx::NodeProto& node) {
    if (node.op_type() == "Constant" && NormalDomain(node.domain()).empty()) {
      ASSIGN_OR_RETURN(v1::TextTensor constant,
                       ReadTextConstantNode(node, file_.external()));
      Define(node.output(0), AddConstant(std::move(constant)));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(TextNode text, ReadTextNode(node, file_.external()));
    std::vector<TextValue>& operands = operands_.emplace_back();
    for (const std::string& input : text.inputs) {
      ASSIGN_OR_RETURN(operands.emplace_back(), Find(input, text.node.name()));
    }
    for (v1::TextTensor& added : text.added) {
      operands.push_back(AddConstant(std::move(added)));
    }
    *program().add_nodes() = std::move(text.node);
    Define(node.output(0), {TextValue::Kind::kNode,
                            static_cast<uint32_t>(program().nodes_size() - 1)});
    return absl::OkStatus();
  }

  absl::StatusOr<TextValue> Find(const std::string& name,
                                 absl::string_view reader) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    return absl::InvalidArgumentError(
        absl::StrCat(reader, ": there is no value '", name, "'"));
  }

  // Returns the name of the first dimension if it has no size; else "".
  std::string BatchNameOf(const ValueInfoProto& port) const {
    const auto& shape = port.type().tensor_type().shape();
    if (shape.dim_size() == 0 || shape.dim(0).has_dim_value() ||
        unbatched_.contains(port.name())) {
      return "";
    }
    return shape.dim(0).dim_param();
  }

  // Tells whether the first dimensions of all ports have no size and one name.
  bool IsBatched() const {
    if (inputs_.empty()) return false;
    const std::string name = BatchNameOf(*inputs_[0]);
    const auto same = [&](const ValueInfoProto& port) {
      return BatchNameOf(port) == name;
    };
    return !name.empty() &&
           std::all_of(inputs_.begin(), inputs_.end(),
                       [&](const auto* port) { return same(*port); }) &&
           std::all_of(graph_.output().begin(), graph_.output().end(), same);
  }

  absl::StatusOr<v1::TensorSpec> PortOf(const ValueInfoProto& port,
                                        bool batched) const {
    v1::TensorSpec spec;
    spec.set_name(port.name());
    const auto& type = port.type().tensor_type();
    if (!port.type().has_tensor_type() || !type.has_shape()) {
      return absl::InvalidArgumentError(
          "it is no tensor with a shape in the file; declare one");
    }
    ASSIGN_OR_RETURN(const v1::DataType data_type,
                     TextDataType(type.elem_type()));
    spec.set_data_type(data_type);
    for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
      const auto& dim = type.shape().dim(axis);
      spec.add_shape(dim.has_dim_value() ? dim.dim_value() : -1);
      if (dim.has_dim_value() || (batched && axis == 0)) continue;
      v1::VariableDimension& variable = *spec.add_variable();
      variable.set_axis(static_cast<uint32_t>(axis));
      variable.set_maximum(kMaxOpenTextSize);
    }
    return spec;
  }

  absl::Status AddPorts() {
    const bool batched = IsBatched();
    for (const ValueInfoProto* input : inputs_) {
      absl::StatusOr<v1::TensorSpec> spec = PortOf(*input, batched);
      RETURN_IF_ERROR(
          AtPlace(absl::StrCat("input '", input->name(), "'"), spec.status()));
      *plan_.add_inputs() = *std::move(spec);
    }
    for (const ValueInfoProto& output : graph_.output()) {
      absl::StatusOr<v1::TensorSpec> spec = PortOf(output, batched);
      RETURN_IF_ERROR(
          AtPlace(absl::StrCat("output '", output.name(), "'"), spec.status()));
      *plan_.add_outputs() = *std::move(spec);
      ASSIGN_OR_RETURN(outputs_.emplace_back(),
                       Find(output.name(), "the outputs of the graph"));
    }
    return absl::OkStatus();
  }

  uint32_t NumberOf(const TextValue& value) {
    const auto inputs = static_cast<uint32_t>(inputs_.size());
    switch (value.kind) {
      case TextValue::Kind::kInput:
        return value.index;
      case TextValue::Kind::kConstant:
        return inputs + value.index;
      case TextValue::Kind::kNode:
        break;
    }
    return inputs + static_cast<uint32_t>(program().constants_size()) +
           value.index;
  }

  // Numbers all values, now that the constants are counted.
  void Number() {
    for (size_t i = 0; i < operands_.size(); ++i) {
      v1::TextProgram::Node& node =
          *program().mutable_nodes(static_cast<int>(i));
      for (const TextValue& operand : operands_[i]) {
        node.add_inputs(NumberOf(operand));
      }
    }
    for (const TextValue& output : outputs_) {
      program().add_outputs(NumberOf(output));
    }
  }

  const OnnxFile& file_;
  const onnx::GraphProto& graph_;
  absl::flat_hash_set<std::string> unbatched_;
  v1::Plan plan_;
  absl::flat_hash_map<std::string, TextValue> values_;  // by name
  std::vector<const ValueInfoProto*> inputs_;
  std::vector<std::vector<TextValue>> operands_;  // of each node
  std::vector<TextValue> outputs_;
};

bool IsText(const ValueInfoProto& port) {
  return port.type().tensor_type().elem_type() == onnx::TensorProto::STRING;
}

}  // namespace

bool HasTexts(const onnx::ModelProto& model) {
  const onnx::GraphProto& graph = model.graph();
  if (std::any_of(graph.input().begin(), graph.input().end(), IsText)) {
    return true;
  }
  return std::any_of(graph.output().begin(), graph.output().end(), IsText) &&
         std::all_of(graph.node().begin(), graph.node().end(), IsTextOperator);
}

absl::StatusOr<v1::Plan> PlanTexts(const OnnxFile& file,
                                   const v1::OnnxModel& model) {
  return TextBuilder(file, model).Build();
}

}  // namespace gpupool::engine::onnx_import
