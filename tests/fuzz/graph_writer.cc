#include "tests/fuzz/graph_writer.h"

#include <algorithm>
#include <utility>

#include "engine/import/onnx/file/tensor_data.h"
#include "tests/fuzz/fuzzed_model.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::TensorProto;

Dims DimsOf(const onnx::TensorShapeProto& shape) {
  Dims dims;
  for (const auto& dim : shape.dim()) {
    dims.push_back(dim.has_dim_value() ? dim.dim_value() : kBatch);
  }
  return dims;
}

bool Contains(const std::vector<int>& types, int type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

template <typename Messages>
void Shorten(Messages* messages, int size) {
  while (messages->size() > size) messages->RemoveLast();
}

}  // namespace

GraphWriter::GraphWriter(uint64_t seed, Observer observer)
    : dice_(seed), observer_(std::move(observer)), seed_(seed) {
  model_.set_ir_version(8);
  opset_ = dice_.OneOf<int>(
      {13, 14, 15, 16, 17, 17, 17, 17, 18, 19, 20, 21, 22, 23, 23, 24});
  auto* imported = model_.add_opset_import();
  imported->set_domain("");
  imported->set_version(opset_);
  graph().set_name("fuzz");
}

GraphWriter::GraphWriter(uint64_t seed, Observer observer,
                         onnx::ModelProto model)
    : dice_(seed),
      observer_(std::move(observer)),
      seed_(seed),
      model_(std::move(model)) {
  for (const auto& imported : model_.opset_import()) {
    if (imported.domain().empty())
      opset_ = static_cast<int>(imported.version());
  }
  for (const auto& input : graph().input()) {
    const auto& type = input.type().tensor_type();
    if (!input.type().has_tensor_type()) continue;
    pool_.push_back({input.name(), type.elem_type(), DimsOf(type.shape())});
  }
  for (const auto& tensor : graph().initializer()) {
    pool_.push_back({tensor.name(), tensor.data_type(),
                     Dims(tensor.dims().begin(), tensor.dims().end())});
  }
  for (const auto& output : graph().output()) {
    const auto& type = output.type().tensor_type();
    if (!type.has_shape()) continue;
    pool_.push_back({output.name(), type.elem_type(), DimsOf(type.shape())});
  }
}

bool GraphWriter::Try(const Recipe& recipe) {
  const int nodes = graph().node_size(), inputs = graph().input_size();
  const int initializers = graph().initializer_size();
  const size_t pooled = pool_.size();
  recipe(*this);
  if (graph().node_size() > nodes && AcceptNewNodes(nodes)) return true;
  Shorten(graph().mutable_node(), nodes);
  Shorten(graph().mutable_input(), inputs);
  Shorten(graph().mutable_initializer(), initializers);
  pool_.resize(pooled);
  return false;
}

bool GraphWriter::AcceptNewNodes(int first_node) {
  onnx::ModelProto tried = model_;
  tried.mutable_graph()->clear_output();
  const auto& nodes = graph().node();
  for (const std::string& output : nodes.Get(nodes.size() - 1).output()) {
    tried.mutable_graph()->add_output()->set_name(output);
  }
  observer_(tried);
  const absl::StatusOr<FuzzedModel> model = ImportFuzzed(tried, seed_);
  if (!model.ok()) return false;
  for (int i = first_node; i < nodes.size(); ++i) {
    for (const std::string& input : nodes.Get(i).input()) {
      for (Pooled& value : pool_) value.read |= value.name == input;
    }
  }
  for (const ModelPort& port : model->model.outputs) {
    if (port.shape.elements() > kMostElements * 4) return false;
    const auto dims = port.shape.dims();
    pool_.push_back({port.name, onnx_import::OnnxType(port.dtype),
                     Dims(dims.begin(), dims.end())});
  }
  return true;
}

onnx::ModelProto GraphWriter::Finish() {
  std::vector<std::string> names;
  const auto is_new = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) == names.end();
  };
  std::vector<std::string> written;
  for (const auto& node : graph().node()) {
    written.insert(written.end(), node.output().begin(), node.output().end());
  }
  for (size_t i = pool_.size(); i-- > 0 && names.size() < 4;) {
    const std::string& name = pool_[i].name;
    const bool computed =
        std::find(written.begin(), written.end(), name) != written.end();
    if (!computed || !is_new(name)) continue;
    if (!pool_[i].read || dice_.Chance(10)) names.push_back(name);
  }
  graph().clear_output();
  for (const std::string& name : names) graph().add_output()->set_name(name);
  return model_;
}

Pooled GraphWriter::Pick(const std::vector<int>& types) {
  return PickRank(types, 0, 8);
}

Pooled GraphWriter::PickRank(const std::vector<int>& types, int low, int high) {
  std::vector<const Pooled*> fitting;
  for (const Pooled& value : pool_) {
    if (Contains(types, value.type) && value.rank() >= low &&
        value.rank() <= high) {
      fitting.push_back(&value);
    }
  }
  if (!fitting.empty() && dice_.Chance(80)) {
    // The newest values are picked more often, which makes graphs deep.
    const auto last = static_cast<int64_t>(fitting.size()) - 1;
    const int64_t at = std::max(dice_.Below(last + 1), dice_.Below(last + 1));
    return *fitting[static_cast<size_t>(at)];
  }
  std::vector<int> wanted;
  for (int i = 0; i < 8 && wanted.empty(); ++i) {
    const int type = RandomType(dice_);
    if (Contains(types, type)) wanted.push_back(type);
  }
  const int type = wanted.empty() ? dice_.OneOf(types) : wanted[0];
  const int rank =
      static_cast<int>(dice_.Between(low, std::min(high, std::max(low, 5))));
  return Fresh(type, RandomDimsOfRank(dice_, rank));
}

void GraphWriter::Stored(TensorProto tensor) {
  if (dice_.Chance(70)) {
    *graph().add_initializer() = std::move(tensor);
    return;
  }
  onnx::NodeProto* node = graph().add_node();
  node->set_op_type("Constant");
  node->add_output(tensor.name());
  auto* attribute = node->add_attribute();
  attribute->set_name("value");
  attribute->set_type(onnx::AttributeProto::TENSOR);
  *attribute->mutable_t() = std::move(tensor);
}

Pooled GraphWriter::Fresh(int type, const Dims& dims) {
  Pooled value{NewName(), type, dims};
  if (dice_.Chance(50)) {
    onnx::ValueInfoProto* input = graph().add_input();
    input->set_name(value.name);
    auto* tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const int64_t size : dims) {
      tensor->mutable_shape()->add_dim()->set_dim_value(size);
    }
  } else {
    Stored(RandomTensor(dice_, value.name, type, dims));
  }
  pool_.push_back(value);
  return value;
}

std::string GraphWriter::Integers(const std::vector<int64_t>& numbers) {
  TensorProto tensor = IntegerTensor(NewName(), numbers);
  const std::string name = tensor.name();
  Stored(std::move(tensor));
  return name;
}

std::string GraphWriter::Known(int type, const Dims& dims,
                               const std::vector<double>& numbers) {
  const std::string name = NewName();
  Stored(MakeTensor(name, type, dims, numbers));
  return name;
}

onnx::NodeProto* GraphWriter::Node(const std::string& op,
                                   const std::vector<std::string>& inputs,
                                   int outputs) {
  onnx::NodeProto* node = graph().add_node();
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  for (int i = 0; i < outputs; ++i) node->add_output(NewName());
  return node;
}

void Set(onnx::NodeProto* node, const std::string& name, int64_t value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void SetFloat(onnx::NodeProto* node, const std::string& name, double value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(static_cast<float>(value));
}

void SetText(onnx::NodeProto* node, const std::string& name,
             const std::string& value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

void SetInts(onnx::NodeProto* node, const std::string& name,
             const std::vector<int64_t>& values) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute->add_ints(value);
}

}  // namespace gpupool::engine::fuzz
