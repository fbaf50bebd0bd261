// Files with hostile structures: loops, calls, nesting, lists, names.
#include <onnx/onnx_pb.h>

#include "tests/fuzz/hostile_models.h"
#include "tests/fuzz/hostile_text.h"

namespace gpupool::engine::onnx_import {
namespace {

// Returns a model with x float32 [2] -> y, opset 17, to which nodes are added.
onnx::ModelProto Frame() {
  return ModelOfGraph("(float[2] x) => (float[N] y) {}");
}

onnx::NodeProto* AddNode(onnx::GraphProto* graph, const std::string& op,
                         const std::vector<std::string>& inputs,
                         const std::string& output) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  if (!output.empty()) node->add_output(output);
  return node;
}

onnx::AttributeProto* AddAttribute(onnx::NodeProto* node,
                                   const std::string& name) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  return attribute;
}

onnx::GraphProto* AddGraph(onnx::NodeProto* node, const std::string& name) {
  onnx::AttributeProto* attribute = AddAttribute(node, name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g()->set_name("body");
  return attribute->mutable_g();
}

void AddConstant(onnx::GraphProto* graph, const std::string& name,
                 int64_t number) {
  onnx::AttributeProto* value =
      AddAttribute(AddNode(graph, "Constant", {}, name), "value_int");
  value->set_type(onnx::AttributeProto::INT);
  value->set_i(number);
}

// Adds a loop of `trips` (a value's name) trips whose body returns its
// condition.
onnx::GraphProto* AddLoop(onnx::GraphProto* graph, const std::string& trips) {
  onnx::GraphProto* body =
      AddGraph(AddNode(graph, "Loop", {trips, ""}, ""), "body");
  body->add_input()->set_name("i");
  body->add_input()->set_name("c");
  body->add_output()->set_name("c");
  return body;
}

void Finish(onnx::ModelProto& model) {
  AddNode(model.mutable_graph(), "Relu", {"x"}, "y");
}

std::string EndlessLoop() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 1000000000);
  AddLoop(model.mutable_graph(), "n");
  Finish(model);
  return model.SerializeAsString();
}

// Returns ten thousand times ten thousand times ... empty bodies.
std::string NestedEmptyLoops() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::GraphProto* graph = model.mutable_graph();
  for (int i = 0; i < 4; ++i) {
    graph = AddLoop(graph, "n");
    for (const char* name : {"i", "c"}) {
      const std::string fresh = absl::StrCat(name, i);
      *graph->mutable_input(name[0] == 'i' ? 0 : 1)->mutable_name() = fresh;
    }
    graph->mutable_output(0)->set_name(absl::StrCat("c", i));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string LoopOfConstants() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::GraphProto* body = AddLoop(model.mutable_graph(), "n");
  onnx::AttributeProto* value =
      AddAttribute(AddNode(body, "Constant", {}, "k"), "value");
  value->set_type(onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(onnx::TensorProto::INT8);
  value->mutable_t()->add_dims(1 << 20);
  std::string raw(1 << 20, 'a');
  raw[0] = 'b';
  value->mutable_t()->set_raw_data(raw);
  Finish(model);
  return model.SerializeAsString();
}

std::string LoopOfFolds() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::GraphProto* body = AddLoop(model.mutable_graph(), "n");
  for (int i = 0; i < 1000; ++i) {
    AddNode(body, "Neg", {"i"}, absl::StrCat("k", i));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string LoopWithState() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::GraphProto* body = AddLoop(model.mutable_graph(), "n");
  onnx::NodeProto* loop = model.mutable_graph()->mutable_node(1);
  for (int i = 0; i < 100000; ++i) {
    loop->add_input("x");
    const std::string name = absl::StrCat("s", i);
    body->add_input()->set_name(name);
    body->add_output()->set_name(name);
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string LoopWithInitializers() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::GraphProto* body = AddLoop(model.mutable_graph(), "n");
  for (int i = 0; i < 100000; ++i) {
    onnx::TensorProto* tensor = body->add_initializer();
    tensor->set_name(absl::StrCat("w", i));
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_float_data(1);
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string LoopOfWideNodes() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::NodeProto* node =
      AddNode(AddLoop(model.mutable_graph(), "n"), "Concat", {}, "k");
  for (int i = 0; i < 100000; ++i) node->add_input("x");
  onnx::AttributeProto* axis = AddAttribute(node, "axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  Finish(model);
  return model.SerializeAsString();
}

std::string LoopOfLongAttributes() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::NodeProto* node =
      AddNode(AddLoop(model.mutable_graph(), "n"), "ReduceMax", {"x"}, "k");
  onnx::AttributeProto* axes = AddAttribute(node, "axes");
  axes->set_type(onnx::AttributeProto::INTS);
  axes->add_ints(0);
  for (int i = 0; i < 100000; ++i) {
    AddAttribute(node, absl::StrCat("other", i))
        ->set_type(onnx::AttributeProto::INT);
  }
  Finish(model);
  return model.SerializeAsString();
}

// Gives every node of an unrolled loop the same long name.
std::string LoopWithLongName() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::GraphProto* body = AddLoop(model.mutable_graph(), "n");
  model.mutable_graph()->mutable_node(1)->set_name(std::string(1000, 'n'));
  for (int i = 0; i < 1000; ++i) {
    AddNode(body, "Relu", {"x"}, absl::StrCat("k", i));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string LoopOfRandomNumbers() {
  onnx::ModelProto model = Frame();
  AddConstant(model.mutable_graph(), "n", 10000);
  onnx::GraphProto* body = AddLoop(model.mutable_graph(), "n");
  for (int i = 0; i < 1000; ++i) {
    onnx::NodeProto* node =
        AddNode(body, "RandomNormalLike", {"x"}, absl::StrCat("k", i));
    node->set_name("same");
  }
  Finish(model);
  return model.SerializeAsString();
}

// f0 is a node. f1 calls f0 twice, f2 calls f1 twice, and so on.
std::string DoublingFunctions() {
  onnx::ModelProto model = Frame();
  auto* import = model.add_opset_import();
  import->set_domain("f");
  import->set_version(1);
  for (int i = 0; i < 16; ++i) {
    onnx::FunctionProto* function = model.add_functions();
    function->set_name(absl::StrCat("f", i));
    function->set_domain("f");
    *function->add_opset_import() = model.opset_import(0);
    *function->add_opset_import() = *import;
    function->add_input("a");
    function->add_output("b");
    for (int call = 0; call < 8; ++call) {
      onnx::NodeProto* node = function->add_node();
      node->set_op_type(i == 0 ? "Relu" : absl::StrCat("f", i - 1));
      if (i > 0) node->set_domain("f");
      node->add_input("a");
      node->add_output(call == 0 ? "b" : absl::StrCat("b", call));
    }
  }
  AddNode(model.mutable_graph(), "f15", {"x"}, "y")->set_domain("f");
  return model.SerializeAsString();
}

// Each call copies its operator sets and the attributes of its body.
std::string CostlyCalls() {
  onnx::ModelProto model = Frame();
  onnx::FunctionProto* function = model.add_functions();
  function->set_name("f");
  function->set_domain("f");
  *function->add_opset_import() = model.opset_import(0);
  for (int i = 0; i < 50000; ++i) {
    auto* import = function->add_opset_import();
    import->set_domain(absl::StrCat("d", i));
    import->set_version(1);
  }
  function->add_input("a");
  function->add_output("b");
  onnx::NodeProto* node = function->add_node();
  node->set_op_type("Relu");
  node->add_input("a");
  node->add_output("b");
  auto* import = model.add_opset_import();
  import->set_domain("f");
  import->set_version(1);
  for (int i = 0; i < 100000; ++i) {
    AddNode(model.mutable_graph(), "f", {"x"}, absl::StrCat("k", i))
        ->set_domain("f");
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string ReferredAttributes() {
  onnx::ModelProto model = Frame();
  onnx::FunctionProto* function = model.add_functions();
  function->set_name("f");
  function->set_domain("f");
  *function->add_opset_import() = model.opset_import(0);
  function->add_input("a");
  function->add_output("b");
  onnx::NodeProto* node = function->add_node();
  node->set_op_type("Relu");
  node->add_input("a");
  node->add_output("b");
  auto* import = model.add_opset_import();
  import->set_domain("f");
  import->set_version(1);
  onnx::NodeProto* call = AddNode(model.mutable_graph(), "f", {"x"}, "y");
  call->set_domain("f");
  for (int i = 0; i < 100000; ++i) {
    const std::string name = absl::StrCat("a", i);
    onnx::AttributeProto* refers = AddAttribute(node, name);
    refers->set_ref_attr_name(absl::StrCat("a", 99999 - i));
    refers->set_type(onnx::AttributeProto::INT);
    AddAttribute(call, name)->set_type(onnx::AttributeProto::INT);
  }
  return model.SerializeAsString();
}

// Every call of a function gets a copy of a long list.
std::string CopiedAttributes() {
  onnx::ModelProto model = Frame();
  onnx::FunctionProto* function = model.add_functions();
  function->set_name("f");
  function->set_domain("f");
  *function->add_opset_import() = model.opset_import(0);
  function->add_input("a");
  function->add_output("b");
  for (int i = 0; i < 1000; ++i) {
    onnx::NodeProto* node = function->add_node();
    node->set_op_type("Relu");
    node->add_input("a");
    node->add_output(i == 0 ? "b" : absl::StrCat("b", i));
    onnx::AttributeProto* refers = AddAttribute(node, "list");
    refers->set_ref_attr_name("list");
    refers->set_type(onnx::AttributeProto::INTS);
  }
  auto* import = model.add_opset_import();
  import->set_domain("f");
  import->set_version(1);
  onnx::NodeProto* call = AddNode(model.mutable_graph(), "f", {"x"}, "y");
  call->set_domain("f");
  onnx::AttributeProto* list = AddAttribute(call, "list");
  list->set_type(onnx::AttributeProto::INTS);
  for (int i = 0; i < 1000000; ++i) list->add_ints(1);
  return model.SerializeAsString();
}

std::string ManyNodes() {
  onnx::ModelProto model = Frame();
  for (int i = 0; i < 199998; ++i) {
    AddNode(model.mutable_graph(), "Relu", {"x"}, absl::StrCat("k", i));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string ManySchemaFunctions() {
  onnx::ModelProto model = Frame();
  for (int i = 0; i < 100000; ++i) {
    AddNode(model.mutable_graph(), "MeanVarianceNormalization", {"x"},
            absl::StrCat("k", i));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string ManyBuiltFunctions() {
  onnx::ModelProto model = Frame();
  for (int i = 0; i < 100000; ++i) {
    AddNode(model.mutable_graph(), "SequenceMap", {"x"}, absl::StrCat("k", i));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string UnknownOperators() {
  onnx::ModelProto model = Frame();
  for (int i = 0; i < 100000; ++i) {
    AddNode(model.mutable_graph(), std::string(1000, 'o'), {"x"},
            absl::StrCat("k", i));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string ManyEmptyInitializers() {
  onnx::ModelProto model = Frame();
  for (int i = 0; i < 1000000; ++i) {
    onnx::TensorProto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(absl::StrCat("w", i));
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_dims(0);
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string ManyPorts() {
  onnx::ModelProto model = Frame();
  onnx::GraphProto* graph = model.mutable_graph();
  for (int i = 0; i < 60000; ++i) {
    onnx::ValueInfoProto* input = graph->add_input();
    *input = graph->input(0);
    input->set_name(absl::StrCat("x", i));
    onnx::ValueInfoProto* output = graph->add_output();
    *output = graph->output(0);
    output->set_name(absl::StrCat("y", i));
    AddNode(graph, "Relu", {input->name()}, output->name());
    auto* dim = input->mutable_type()->mutable_tensor_type()->mutable_shape();
    dim->mutable_dim(0)->set_dim_param("N");
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string DeepSubgraphs() {
  onnx::ModelProto model = Frame();
  onnx::GraphProto* graph = model.mutable_graph();
  for (int i = 0; i < 28; ++i) {
    graph = AddGraph(AddNode(graph, "If", {"x"}, "q"), "then_branch");
  }
  Finish(model);
  return model.SerializeAsString();
}

// Nests messages far deeper than a stack allows.
std::string DeepMessages() {
  std::string bytes;
  for (int i = 0; i < 100000 && bytes.size() < (1 << 20); ++i) {
    std::string length;
    for (size_t n = bytes.size(); length.empty() || n > 0; n >>= 7) {
      length += static_cast<char>((n & 0x7f) | (n >> 7 ? 0x80 : 0));
    }
    // GraphProto.node, NodeProto.attribute, AttributeProto.g, repeated.
    const char* tags = "\x0a\x2a\x32";
    bytes.insert(0, tags[2 - i % 3] + length);
    if (i > 3000) break;
  }
  return "\x08\x08" + bytes;
}

std::string TinyMessages() {
  std::string nodes;
  for (int i = 0; i < 4000000; ++i) nodes += std::string("\x0a\x00", 2);
  std::string length;
  for (size_t n = nodes.size(); length.empty() || n > 0; n >>= 7) {
    length += static_cast<char>((n & 0x7f) | (n >> 7 ? 0x80 : 0));
  }
  return "\x08\x08\x3a" + length + nodes;
}

std::string LongSequence() {
  onnx::ModelProto model = Frame();
  onnx::GraphProto* graph = model.mutable_graph();
  AddNode(graph, "SequenceEmpty", {}, "s0");
  for (int i = 0; i < 100000; ++i) {
    AddNode(graph, "SequenceInsert", {absl::StrCat("s", i), "x"},
            absl::StrCat("s", i + 1));
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string SequenceOutputs() {
  onnx::ModelProto model = Frame();
  onnx::GraphProto* graph = model.mutable_graph();
  onnx::NodeProto* all = AddNode(graph, "SequenceConstruct", {}, "s");
  for (int i = 0; i < 50000; ++i) all->add_input("x");
  for (int i = 0; i < 50000; ++i) {
    const std::string name = absl::StrCat("o", i);
    AddNode(graph, "Identity", {"s"}, name);
    graph->add_output()->set_name(name);
  }
  Finish(model);
  return model.SerializeAsString();
}

std::string RecurrentSteps() {
  return ModelOfGraph(
             "(float[1000000, 1, 2] x, float[1, 8, 2] w, float[1, 8, 2] r) => "
             "(float[N] y) { y = LSTM<hidden_size=2>(x, w, r) }")
      .SerializeAsString();
}

std::string ManyRecurrentSteps() {
  return ModelOfGraph(absl::StrCat("(float[8000, 1, 2] x0, float[1, 8, 2] w, "
                                   "float[1, 8, 2] r) => (float[N] y) { "
                                   "s = Constant<value_ints=[8000, 1, 2]>() ",
                                   Repeat(1000,
                                          "q$ = LSTM<hidden_size=2>(x%, w, r) "
                                          "x$ = Reshape(q$, s) "),
                                   "y = Relu(x0) }"))
      .SerializeAsString();
}

std::string TwoNodesOneName() {
  return ModelOfNodes("a = Relu(x) a = Relu(x) y = Relu(a)");
}

std::string Cycle() {
  return ModelOfNodes("a = Relu(b) b = Relu(a) y = Relu(b)");
}

std::string ShortRawData() {
  onnx::ModelProto model = Frame();
  onnx::TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->add_dims(int64_t{1} << 46);
  tensor->set_raw_data("1234");
  AddNode(model.mutable_graph(), "Add", {"x", "w"}, "y");
  return model.SerializeAsString();
}

std::string LongTexts() {
  onnx::ModelProto model = Frame();
  onnx::NodeProto* node =
      AddNode(model.mutable_graph(), "Einsum", {"x", "x"}, "y");
  onnx::AttributeProto* equation = AddAttribute(node, "equation");
  equation->set_type(onnx::AttributeProto::STRING);
  equation->set_s(std::string(100 << 20, 'i'));
  return model.SerializeAsString();
}

}  // namespace

std::vector<HostileModel> HostileStructures() {
  return {
      {"EndlessLoop", "iterations", EndlessLoop},
      {"NestedEmptyLoops", "parts", NestedEmptyLoops},
      {"LoopOfConstants", "may hold", LoopOfConstants},
      {"LoopOfFolds", "nodes", LoopOfFolds},
      {"LoopWithState", "parts", LoopWithState},
      {"LoopWithInitializers", "parts", LoopWithInitializers},
      {"LoopOfWideNodes", "parts", LoopOfWideNodes},
      {"LoopOfLongAttributes", "parts", LoopOfLongAttributes},
      {"LoopWithLongName", "may hold", LoopWithLongName},
      {"LoopOfRandomNumbers", "nodes", LoopOfRandomNumbers},
      {"DoublingFunctions", "nodes", DoublingFunctions},
      {"CostlyCalls", "parts", CostlyCalls},
      {"ReferredAttributes", "", ReferredAttributes},
      {"CopiedAttributes", "may hold", CopiedAttributes},
      {"ManyNodes", "", ManyNodes},
      {"ManySchemaFunctions", "", ManySchemaFunctions},
      {"ManyBuiltFunctions", "", ManyBuiltFunctions},
      {"UnknownOperators", "not supported", UnknownOperators},
      {"ManyEmptyInitializers", "too many small parts", ManyEmptyInitializers},
      {"ManyPorts", "", ManyPorts},
      {"DeepSubgraphs", "", DeepSubgraphs},
      {"DeepMessages", "", DeepMessages},
      {"TinyMessages", "", TinyMessages},
      {"LongSequence", "may hold", LongSequence},
      {"SequenceOutputs", "may hold", SequenceOutputs},
      {"RecurrentSteps", "over the limit", RecurrentSteps},
      {"ManyRecurrentSteps", "", ManyRecurrentSteps},
      {"TwoNodesOneName", "defined twice", TwoNodesOneName},
      {"Cycle", "which nothing before it defines", Cycle},
      {"ShortRawData", "", ShortRawData},
      {"LongTexts", "equation", LongTexts},
  };
}

}  // namespace gpupool::engine::onnx_import
