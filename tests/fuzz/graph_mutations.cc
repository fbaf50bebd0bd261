#include "tests/fuzz/graph_mutations.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/import/onnx/export/export_layers.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/model/layer_spec.h"
#include "engine/model/model_source.h"
#include "engine/tensor/convert.h"
#include "gpupool/v1/model.pb.h"
#include "tests/engine/testing/random_model.h"
#include "tests/fuzz/recipes.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::TensorProto;

constexpr char kOfficialCases[] = "/usr/share/libonnx-testdata/data/";
constexpr uint64_t kLargestFile = 16384;

template <typename Messages>
auto* OneOf(Dice& dice, Messages* messages) {
  return messages->Mutable(static_cast<int>(dice.Below(messages->size())));
}

// Stores the numbers of a tensor in another type.
void ConvertTensor(int from, int to, TensorProto& tensor) {
  if (tensor.data_type() != from) return;
  const auto numbers = onnx_import::ReadTensor(tensor, {});
  if (!numbers.ok()) return;
  const Dims dims(tensor.dims().begin(), tensor.dims().end());
  tensor = MakeTensor(tensor.name(), to, dims, numbers->numbers);
}

void ConvertNode(int from, int to, onnx::NodeProto& node) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) ConvertTensor(from, to, *attribute.mutable_t());
    if ((attribute.name() == "to" || attribute.name() == "dtype") &&
        attribute.i() == from) {
      attribute.set_i(to);
    }
  }
}

// Gives everything of one type another, mostly float32 a narrower one.
void ChangeType(Dice& dice, onnx::GraphProto& graph) {
  const int from = dice.Chance(80) ? TensorProto::FLOAT : RandomType(dice);
  const int to = dice.Chance(80) ? RandomFloatingType(dice) : RandomType(dice);
  for (auto* ports : {graph.mutable_input(), graph.mutable_output(),
                      graph.mutable_value_info()}) {
    for (auto& port : *ports) {
      auto* tensor = port.mutable_type()->mutable_tensor_type();
      if (tensor->elem_type() == from) tensor->set_elem_type(to);
    }
  }
  for (auto& tensor : *graph.mutable_initializer()) {
    ConvertTensor(from, to, tensor);
  }
  for (auto& node : *graph.mutable_node()) ConvertNode(from, to, node);
}

void ChangeSize(Dice& dice, onnx::GraphProto& graph) {
  if (graph.input_size() == 0) return;
  auto* shape = OneOf(dice, graph.mutable_input())
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape();
  if (dice.Chance(15)) {
    shape->add_dim()->set_dim_value(dice.Between(1, 3));
    return;
  }
  if (shape->dim_size() == 0) return;
  if (dice.Chance(15)) {
    shape->mutable_dim()->RemoveLast();
    return;
  }
  auto* dim = OneOf(dice, shape->mutable_dim());
  if (dice.Chance(20)) {
    dim->set_dim_param("N");
  } else {
    dim->set_dim_value(dice.OneOf<int64_t>({0, 1, 1, 2, 3, 5, 8, 17}));
  }
}

void ChangeAttribute(Dice& dice, onnx::GraphProto& graph) {
  auto* node = OneOf(dice, graph.mutable_node());
  if (node->attribute_size() == 0) return;
  auto* attribute = OneOf(dice, node->mutable_attribute());
  if (dice.Chance(15)) {
    node->mutable_attribute()->SwapElements(0, node->attribute_size() - 1);
    node->mutable_attribute()->RemoveLast();
  } else if (attribute->has_i()) {
    attribute->set_i(attribute->i() + dice.Between(-2, 2));
  } else if (attribute->has_f()) {
    attribute->set_f(dice.OneOf<float>({0, 0.5, 1, 2, -1, 1e-5F}));
  } else if (attribute->ints_size() > 0) {
    auto* numbers = attribute->mutable_ints();
    numbers->Set(static_cast<int>(dice.Below(numbers->size())),
                 dice.Between(-1, 3));
  }
}

// Makes an initializer an input, or the other way round.
void ChangeKind(Dice& dice, onnx::GraphProto& graph) {
  if (graph.initializer_size() > 0 && dice.Chance(60)) {
    const TensorProto tensor = *OneOf(dice, graph.mutable_initializer());
    auto* tensors = graph.mutable_initializer();
    tensors->erase(std::remove_if(tensors->begin(), tensors->end(),
                                  [&tensor](const TensorProto& one) {
                                    return one.name() == tensor.name();
                                  }),
                   tensors->end());
    auto* input = graph.add_input();
    input->set_name(tensor.name());
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(tensor.data_type());
    type->mutable_shape();
    for (const int64_t size : tensor.dims()) {
      type->mutable_shape()->add_dim()->set_dim_value(size);
    }
    return;
  }
  if (graph.input_size() == 0) return;
  const auto& input = *OneOf(dice, graph.mutable_input());
  const auto& type = input.type().tensor_type();
  Dims dims;
  for (const auto& dim : type.shape().dim()) {
    dims.push_back(dim.has_dim_value() ? dim.dim_value() : 2);
  }
  if (ElementsOf(dims) > kMostElements || ElementsOf(dims) < 0) return;
  *graph.add_initializer() =
      RandomTensor(dice, input.name(), type.elem_type(), dims);
}

// Drops an input of a node, or has it read another value of the graph.
void ChangeInput(Dice& dice, onnx::GraphProto& graph) {
  auto* node = OneOf(dice, graph.mutable_node());
  if (node->input_size() == 0) return;
  if (dice.Chance(30)) {
    node->mutable_input()->RemoveLast();
    return;
  }
  const auto* other = OneOf(dice, graph.mutable_node());
  if (other->input_size() == 0) return;
  *node->mutable_input(static_cast<int>(dice.Below(node->input_size()))) =
      other->input(static_cast<int>(dice.Below(other->input_size())));
}

void ChangeOperator(Dice& dice, onnx::GraphProto& graph) {
  static const auto& operators = *new std::vector<std::string>{
      "Relu", "Neg", "Exp", "Softmax", "Identity", "Abs", "Sigmoid", "Sqrt",
      "Add",  "Mul", "Sub", "Div",     "MatMul",   "Max", "Flatten", "Pow"};
  OneOf(dice, graph.mutable_node())->set_op_type(dice.OneOf(operators));
}

}  // namespace

onnx::ModelProto MutateGraph(onnx::ModelProto model, uint64_t seed,
                             const GraphWriter::Observer& observer) {
  Dice dice(seed, 4);
  const int64_t changes = dice.Between(1, 3);
  for (int64_t i = 0; i < changes && model.graph().node_size() > 0; ++i) {
    onnx::GraphProto& graph = *model.mutable_graph();
    switch (dice.Below(7)) {
      case 0:
        ChangeType(dice, graph);
        break;
      case 1:
        ChangeSize(dice, graph);
        break;
      case 2:
        ChangeAttribute(dice, graph);
        break;
      case 3:
        ChangeKind(dice, graph);
        break;
      case 4:
        ChangeInput(dice, graph);
        break;
      case 5:
        ChangeOperator(dice, graph);
        break;
      default: {
        GraphWriter writer(seed, observer, model);
        const int64_t nodes = dice.Between(1, 3);
        int added = 0;
        for (int64_t k = 0; k < nodes; ++k) added += AddRandomNode(writer);
        if (added > 0) model = writer.Finish();
      }
    }
  }
  return model;
}

std::vector<onnx::ModelProto> OfficialModels() {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const char* kind :
       {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    for (const auto& entry :
         fs::directory_iterator(absl::StrCat(kOfficialCases, kind), ignored)) {
      const auto path = entry.path() / "model.onnx";
      const auto bytes = fs::file_size(path, ignored);
      if (!ignored && bytes <= kLargestFile) paths.push_back(path.string());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<onnx::ModelProto> models;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    onnx::ModelProto model;
    if (model.ParseFromString(bytes)) models.push_back(std::move(model));
  }
  return models;
}

std::vector<onnx::ModelProto> LayerModels(int count) {
  std::vector<onnx::ModelProto> models;
  for (int i = 0; i < count; ++i) {
    const v1::ModelSpec spec =
        testing::RandomModel(static_cast<uint64_t>(i) + 1);
    const auto built = BuildModel(spec, {.batch = 2});
    GPUPOOL_CHECK(built.ok());
    std::vector<WeightTensor> weights;
    std::deque<std::vector<std::byte>> bytes_of_weights;
    Dice dice(static_cast<uint64_t>(i), 5);
    for (const PersistentSpec& one : built->persistents) {
      WeightTensor weight{
          .name = one.name, .dtype = one.dtype, .shape = one.shape};
      const std::vector<double> numbers =
          RandomNumbers(dice, one.dtype, one.shape.elements());
      auto& stored = bytes_of_weights.emplace_back(one.shape.bytes(one.dtype));
      WriteFromDoubles(one.dtype, numbers, 1, stored.data());
      weight.bytes = stored;
      weights.push_back(std::move(weight));
    }
    const auto bytes = onnx_import::ExportLayers(spec, *built, weights);
    GPUPOOL_CHECK(bytes.ok());
    GPUPOOL_CHECK(models.emplace_back().ParseFromString(*bytes));
  }
  return models;
}

}  // namespace gpupool::engine::fuzz
