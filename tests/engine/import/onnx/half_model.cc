#include "tests/engine/import/onnx/half_model.h"

#include <cstddef>
#include <utility>

#include "engine/base/philox.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::TensorProto;

DType TypeOf(int data_type) { return *DTypeFromOnnx(data_type); }

// Replaces the numbers of a FLOAT tensor by those of another type.
void Convert(int data_type, TensorProto& tensor) {
  if (tensor.data_type() != TensorProto::FLOAT) return;
  HostTensor host = *ReadTensor(tensor, {});
  const DType dtype = TypeOf(data_type);
  std::string bytes(host.numbers.size() * SizeOf(dtype), '\0');
  WriteFromDoubles(dtype, host.numbers, 1,
                   reinterpret_cast<std::byte*>(bytes.data()));
  tensor.clear_float_data();
  tensor.set_data_type(data_type);
  tensor.set_raw_data(std::move(bytes));
}

// Converts what a node's attributes hold.
void ConvertNode(int data_type, onnx::NodeProto& node) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) Convert(data_type, *attribute.mutable_t());
    const bool cast = node.op_type() == "Cast" && attribute.name() == "to";
    if (cast && attribute.i() == TensorProto::FLOAT) attribute.set_i(data_type);
    if (node.op_type() != "Constant" || attribute.name() != "value_float") {
      continue;
    }
    TensorProto number;
    number.set_data_type(TensorProto::FLOAT);
    number.add_float_data(attribute.f());
    Convert(data_type, number);
    attribute.Clear();
    attribute.set_name("value");
    attribute.set_type(onnx::AttributeProto::TENSOR);
    *attribute.mutable_t() = number;
  }
}

onnx::NodeProto CastNode(const std::string& from, const std::string& to,
                         int data_type) {
  onnx::NodeProto node;
  node.set_op_type("Cast");
  node.add_input(from);
  node.add_output(to);
  onnx::AttributeProto* attribute = node.add_attribute();
  attribute->set_name("to");
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(data_type);
  return node;
}

bool IsFloat(const onnx::ValueInfoProto& port) {
  return port.type().tensor_type().elem_type() == TensorProto::FLOAT;
}

// Renames a value in all nodes.
void Rename(const std::string& from, const std::string& to,
            onnx::GraphProto& graph) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& name : *node.mutable_input()) {
      if (name == from) name = to;
    }
    for (std::string& name : *node.mutable_output()) {
      if (name == from) name = to;
    }
  }
}

// Puts casts between the float32 ports and the nodes.
void CastPorts(int data_type, onnx::GraphProto& graph) {
  onnx::GraphProto front, back;
  for (const auto& input : graph.input()) {
    if (!IsFloat(input)) continue;
    Rename(input.name(), input.name() + "_half", graph);
    *front.add_node() =
        CastNode(input.name(), input.name() + "_half", data_type);
  }
  for (const auto& output : graph.output()) {
    if (!IsFloat(output)) continue;
    Rename(output.name(), output.name() + "_half", graph);
    *back.add_node() =
        CastNode(output.name() + "_half", output.name(), TensorProto::FLOAT);
  }
  front.mutable_node()->MergeFrom(graph.node());
  front.mutable_node()->MergeFrom(back.node());
  graph.mutable_node()->Swap(front.mutable_node());
}

}  // namespace

void AddWeight(const std::string& name, const std::vector<int64_t>& dims,
               double scale, onnx::ModelProto& model) {
  TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  int64_t count = 1;
  for (const int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= dim;
  }
  Philox random(PhiloxNameIndex(name));
  for (int64_t i = 0; i < count; ++i) {
    tensor.add_float_data(
        static_cast<float>((2.0 * random.NextFloat() - 1.0) * scale));
  }
}

void ToHalf(const HalfOptions& options, onnx::ModelProto& model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  for (auto& tensor : *graph.mutable_initializer()) {
    Convert(options.data_type, tensor);
  }
  for (auto& node : *graph.mutable_node()) {
    ConvertNode(options.data_type, node);
  }
  if (options.keep_ports) return CastPorts(options.data_type, graph);
  for (auto* ports : {graph.mutable_input(), graph.mutable_output()}) {
    for (auto& port : *ports) {
      if (!IsFloat(port)) continue;
      port.mutable_type()->mutable_tensor_type()->set_elem_type(
          options.data_type);
    }
  }
}

void RoundWeights(int data_type, onnx::ModelProto& model) {
  for (auto& tensor : *model.mutable_graph()->mutable_initializer()) {
    for (float& number : *tensor.mutable_float_data()) {
      number = static_cast<float>(RoundToDType(TypeOf(data_type), number));
    }
  }
}

}  // namespace gpupool::engine::onnx_import
