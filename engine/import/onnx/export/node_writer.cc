#include "engine/import/onnx/export/node_writer.h"

#include <onnx/onnx_pb.h>

#include "absl/strings/str_cat.h"
#include "engine/import/onnx/export/export_tensor.h"

namespace gpupool::engine::onnx_import {

void SetInt(onnx::NodeProto& node, const char* name, int64_t value) {
  onnx::AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void SetInts(onnx::NodeProto& node, const char* name,
             const std::vector<int64_t>& values) {
  onnx::AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}

void SetFloat(onnx::NodeProto& node, const char* name, double value) {
  onnx::AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(static_cast<float>(value));
}

NodeWriter::NodeWriter(onnx::GraphProto& graph,
                       const std::vector<WeightTensor>& weights)
    : graph_(graph) {
  for (const WeightTensor& weight : weights) weights_[weight.name] = &weight;
}

onnx::NodeProto& NodeWriter::Node(const char* op, const std::string& name,
                                  const std::vector<std::string>& inputs) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(absl::StrCat(name, ":0"));
  return node;
}

onnx::NodeProto& NodeWriter::Node(const char* op,
                                  const std::vector<std::string>& inputs) {
  return Node(op, layer_, inputs);
}

onnx::NodeProto& NodeWriter::PartNode(const char* op, const char* part,
                                      const std::vector<std::string>& inputs) {
  return Node(op, absl::StrCat(layer_, "/", part), inputs);
}

std::string NodeWriter::Part(const char* op, const char* part,
                             const std::vector<std::string>& inputs) {
  return PartNode(op, part, inputs).output(0);
}

std::string NodeWriter::Weight(const std::string& name, const std::string& as) {
  const auto found = weights_.find(name);
  if (found == weights_.end()) {
    if (missing_.empty()) missing_ = name;
    return as;
  }
  if (WasWritten(as)) return as;
  onnx::TensorProto& tensor = *graph_.add_initializer();
  FillTensor(*found->second, tensor);
  tensor.set_name(as);
  return as;
}

std::string NodeWriter::LayerWeight(const char* what) {
  const std::string name = absl::StrCat(layer_, ".", what);
  return Weight(name, name);
}

std::string NodeWriter::Number(const char* part, double value) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(absl::StrCat(layer_, "/", part));
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_float_data(static_cast<float>(value));
  return tensor.name();
}

onnx::TensorProto& NodeWriter::IntegerTensor(const std::string& name) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  return tensor;
}

std::string NodeWriter::Integers(const char* part,
                                 const std::vector<int64_t>& numbers) {
  onnx::TensorProto& tensor = IntegerTensor(absl::StrCat(layer_, "/", part));
  tensor.add_dims(static_cast<int64_t>(numbers.size()));
  for (const int64_t number : numbers) tensor.add_int64_data(number);
  return tensor.name();
}

std::string NodeWriter::Integer(const char* part, int64_t number) {
  onnx::TensorProto& tensor = IntegerTensor(absl::StrCat(layer_, "/", part));
  tensor.add_int64_data(number);
  return tensor.name();
}

void NodeWriter::Count(const std::string& name, const Shape& shape) {
  onnx::TensorProto& tensor = IntegerTensor(name);
  for (const int64_t dimension : shape.dims()) tensor.add_dims(dimension);
  for (int64_t i = 0; i < shape.elements(); ++i) tensor.add_int64_data(i);
}

}  // namespace gpupool::engine::onnx_import
