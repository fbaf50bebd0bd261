#include "engine/import/onnx/file/traps.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {
namespace {

// Most names that one warning lists.
constexpr size_t kMaxNames = 3;
// The first operator set whose norms and dropouts say whether they train.
constexpr int64_t kTrainingModeOpset = 14;

constexpr char kKeepTraining[] =
    "export with training=torch.onnx.TrainingMode.TRAINING and "
    "do_constant_folding=False";

// Returns "'a', 'b', 'c' and 4 more".
std::string ShownNames(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMaxNames);
  std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (names.size() > shown) {
    absl::StrAppend(&text, " and ", names.size() - shown, " more");
  }
  return text;
}

std::string Quoted(const std::string& name) {
  return absl::StrCat("'", name, "'");
}

// Returns whether the node may read a weight. Others read sizes, scales and the
// like, which are never trained.
bool ReadsWeights(const onnx::NodeProto& node) {
  static const auto* const kOperators = new absl::flat_hash_set<std::string>{
      "Add",    "Conv",  "ConvTranspose",         "Einsum",
      "Gather", "Gemm",  "GroupNormalization",    "GRU",
      "LSTM",   "Mul",   "InstanceNormalization", "LayerNormalization",
      "MatMul", "PRelu", "RMSNormalization",      "RNN"};
  return kOperators->contains(node.op_type());
}

// Returns whether the node's output stands for the tensor that it reads.
bool OnlyReshapes(const onnx::NodeProto& node) {
  static const auto* const kOperators = new absl::flat_hash_set<std::string>{
      "Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"};
  return node.output_size() == 1 && kOperators->contains(node.op_type());
}

// Returns whether the tensor may be a weight: floating, with several numbers.
bool MayBeWeight(const onnx::TensorProto& tensor) {
  const bool single = std::all_of(tensor.dims().begin(), tensor.dims().end(),
                                  [](int64_t dim) { return dim == 1; });
  return IsFloatingType(tensor.data_type()) && !single;
}

int64_t IntAttribute(const onnx::NodeProto& node, const char* name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i();
  }
  return 0;
}

// Returns the inputs that a request brings.
std::vector<const onnx::ValueInfoProto*> RealInputs(
    const onnx::GraphProto& graph) {
  absl::flat_hash_set<std::string> stored;
  for (const auto& tensor : graph.initializer()) stored.insert(tensor.name());
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const auto& input : graph.input()) {
    if (!stored.contains(input.name())) inputs.push_back(&input);
  }
  return inputs;
}

struct Weight {
  std::string name;
  std::vector<std::string> readers;  // titles of nodes
};

// Adds a node, which may read the weight several times, once.
void AddReader(std::string title, std::vector<std::string>& readers) {
  if (readers.empty() || readers.back() != title) {
    readers.push_back(std::move(title));
  }
}

// Returns the weights of the graph in their order, with their readers.
std::vector<Weight> WeightsOf(const onnx::GraphProto& graph) {
  absl::flat_hash_map<std::string, size_t> positions;
  std::vector<Weight> weights;
  for (const auto& tensor : graph.initializer()) {
    if (!MayBeWeight(tensor)) continue;
    if (!positions.emplace(tensor.name(), weights.size()).second) continue;
    weights.push_back({tensor.name(), {}});
  }
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) {
      const auto found = positions.find(input);
      if (found == positions.end()) continue;
      if (OnlyReshapes(node)) {
        const size_t position = found->second;  // the table may move
        positions.emplace(node.output(0), position);
      } else if (ReadsWeights(node)) {
        AddReader(NodeTitle(node), weights[found->second].readers);
      }
    }
  }
  return weights;
}

std::string TiedTrap(const onnx::GraphProto& graph,
                     const absl::flat_hash_set<std::string>& buffers) {
  std::vector<std::string> tied;
  std::string readers_of_first;
  for (const Weight& weight : WeightsOf(graph)) {
    if (weight.readers.size() < 2 || buffers.contains(weight.name)) continue;
    if (tied.empty()) readers_of_first = ShownNames(weight.readers);
    tied.push_back(Quoted(weight.name));
  }
  if (tied.empty()) return "";
  return absl::StrCat(
      "several nodes read ", ShownNames(tied), " (", tied.front(), ": ",
      readers_of_first,
      "), so training changes the tensor for all of them; exporters store "
      "equal tensors once, so if the net does not tie them on purpose, ",
      kKeepTraining, ", which keeps them apart");
}

bool SaysTraining(const onnx::NodeProto& node) {
  return IntAttribute(node, "training_mode") != 0;
}

// Returns whether a batch norm has the outputs of training: more than one
// before operator set 14.
bool HasTrainingOutputs(const onnx::NodeProto& node) {
  return node.op_type() == "BatchNormalization" &&
         std::count(node.output().begin(), node.output().end(), "") + 1 <
             node.output_size();
}

std::string OldTrainingTrap(const onnx::ModelProto& model) {
  const int64_t opset = StandardOpset(model.opset_import(), 0);
  if (opset >= kTrainingModeOpset) return "";
  for (const auto& node : model.graph().node()) {
    if (!HasTrainingOutputs(node)) continue;
    return absl::StrCat(NodeTitle(node),
                        " was exported in training mode with operator set ",
                        opset,
                        ", in which its running statistics are not defined "
                        "alike everywhere; export with opset_version=",
                        kTrainingModeOpset, " or newer");
  }
  return "";
}

std::string EvaluationModeTrap(const onnx::ModelProto& model) {
  if (!absl::StrContains(model.producer_name(), "pytorch")) return "";
  for (const auto& node : model.graph().node()) {
    if (node.op_type() == "Dropout" || SaysTraining(node) ||
        HasTrainingOutputs(node)) {
      return "";
    }
  }
  return absl::StrCat(
      "the file has no dropout; PyTorch leaves it out when a module is in "
      "evaluation mode: if yours drops out, ",
      kKeepTraining, " to keep it");
}

// Returns a warning when the first dimension of every input has the same size.
std::string FixedBatchTrap(const onnx::GraphProto& graph) {
  const auto inputs = RealInputs(graph);
  if (inputs.empty()) return "";
  int64_t size = 0;
  for (const onnx::ValueInfoProto* input : inputs) {
    const auto& shape = input->type().tensor_type().shape();
    // A vector's only dimension is seldom a batch.
    if (shape.dim_size() < 2 || !shape.dim(0).has_dim_value()) return "";
    if (size != 0 && size != shape.dim(0).dim_value()) return "";
    size = shape.dim(0).dim_value();
  }
  const std::string name = Quoted(inputs.front()->name());
  return absl::StrCat(
      "the first dimension of ", name, " has the fixed size ", size,
      ", so each request runs alone and the model cannot be trained; if it "
      "is the batch, give it a name at export, as dynamic_axes={",
      name, ": {0: 'batch'}} does in torch.onnx.export");
}

// Returns whether the node is a batch norm, or a norm that nets of convolutions
// have instead of batch norms.
bool IsNormOfConvolutions(const onnx::NodeProto& node) {
  return node.op_type() == "BatchNormalization" ||
         node.op_type() == "GroupNormalization" ||
         node.op_type() == "InstanceNormalization";
}

std::string FoldedNormsTrap(const onnx::GraphProto& graph) {
  bool convolutions_with_bias = false;
  for (const auto& node : graph.node()) {
    if (IsNormOfConvolutions(node)) return "";
    convolutions_with_bias |= node.op_type() == "Conv" &&
                              node.input_size() == 3 && !node.input(2).empty();
  }
  if (!convolutions_with_bias) return "";
  return absl::StrCat(
      "the model has convolutions with a bias and no batch, group or instance "
      "norm: if batch norms were folded away at export, training goes on "
      "without them; ",
      kKeepTraining, " to keep them");
}

std::vector<std::string> WithoutEmpty(std::vector<std::string> traps) {
  traps.erase(std::remove(traps.begin(), traps.end(), ""), traps.end());
  return traps;
}

}  // namespace

std::vector<std::string> ModelTraps(const onnx::ModelProto& model) {
  return WithoutEmpty(
      {FixedBatchTrap(model.graph()), FoldedNormsTrap(model.graph())});
}

std::vector<std::string> TrainingTraps(
    const onnx::ModelProto& model,
    const absl::flat_hash_set<std::string>& buffers) {
  return WithoutEmpty({TiedTrap(model.graph(), buffers), OldTrainingTrap(model),
                       EvaluationModeTrap(model)});
}

std::string BufferTrap(const std::vector<Buffer>& buffers) {
  std::vector<std::string> names;
  for (const Buffer& buffer : buffers) {
    names.push_back(absl::StrCat("'", buffer.name, "' (", buffer.reason, ")"));
  }
  return absl::StrCat(
      "taken for constant tables, which are not trained: ", ShownNames(names),
      "; to train one, name it in training.trainable");
}

}  // namespace gpupool::engine::onnx_import
