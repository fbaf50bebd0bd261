#include "engine/import/onnx/export/inference_nodes.h"

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "engine/import/onnx/file/names.h"

namespace gpupool::engine::onnx_import {
namespace {

using Names = absl::flat_hash_set<std::string>;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// The first versions of ONNX that tell the mode by an input or an attribute
// called training_mode.
constexpr int64_t kBatchNormWithMode = 14;
constexpr int64_t kDropoutWithMode = 12;
// The last version with the attribute is_test.
constexpr int64_t kIsTest = 6;

onnx::AttributeProto* FindAttribute(onnx::NodeProto& node,
                                    absl::string_view name) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

void ReplaceInt(onnx::NodeProto& node, const std::string& name,
                int64_t number) {
  onnx::AttributeProto* attribute = FindAttribute(node, name);
  if (attribute == nullptr) attribute = node.add_attribute();
  attribute->Clear();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(number);
}

// Adds the names that nodes read, also those in graphs inside of them.
void AddReads(const Nodes& nodes, Names& reads) {
  for (const onnx::NodeProto& node : nodes) {
    reads.insert(node.input().begin(), node.input().end());
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      const auto add = [&reads](const onnx::GraphProto& graph) {
        AddReads(graph.node(), reads);
        for (const auto& output : graph.output()) reads.insert(output.name());
      };
      if (attribute.has_g()) add(attribute.g());
      for (const onnx::GraphProto& graph : attribute.graphs()) add(graph);
    }
  }
}

class Converter {
 public:
  explicit Converter(int64_t opset) : opset_(opset) {}

  // Converts the nodes of a graph or function. `stored` are the names of
  // tensors of the file, `reads` the names that anything reads.
  void Convert(Names stored, const Names& reads, Nodes& nodes) const;
  void Convert(Names stored, onnx::GraphProto& graph) const;

 private:
  void ConvertBatchNorm(const Names& stored, const Names& reads,
                        onnx::NodeProto& node, Nodes& after) const;
  void ConvertDropout(onnx::NodeProto& node) const;

  const int64_t opset_;
};

void Converter::Convert(Names stored, onnx::GraphProto& graph) const {
  for (const auto& tensor : graph.initializer()) stored.insert(tensor.name());
  Names reads;
  AddReads(graph.node(), reads);
  for (const auto& output : graph.output()) reads.insert(output.name());
  Convert(std::move(stored), reads, *graph.mutable_node());
}

void Converter::Convert(Names stored, const Names& reads, Nodes& nodes) const {
  Nodes converted;
  for (onnx::NodeProto& node : nodes) {
    Nodes after;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) Convert(stored, *attribute.mutable_g());
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) {
        Convert(stored, graph);
      }
    }
    if (NormalDomain(node.domain()).empty()) {
      if (node.op_type() == "BatchNormalization") {
        ConvertBatchNorm(stored, reads, node, after);
      } else if (node.op_type() == "Dropout") {
        ConvertDropout(node);
      } else if (node.op_type() == "Identity" && node.input_size() == 1 &&
                 node.output_size() == 1 && stored.contains(node.input(0))) {
        stored.insert(node.output(0));
      }
    }
    converted.Add()->Swap(&node);
    for (onnx::NodeProto& one : after) converted.Add()->Swap(&one);
  }
  nodes.Swap(&converted);
}

// The running statistics that a batch norm gives out in training mode are, in
// inference, those that it takes in.
void Converter::ConvertBatchNorm(const Names& stored, const Names& reads,
                                 onnx::NodeProto& node, Nodes& after) const {
  if (node.input_size() < 5) return;
  if (opset_ <= kIsTest) ReplaceInt(node, "is_test", 1);
  if (opset_ >= kBatchNormWithMode) {
    const onnx::AttributeProto* mode = FindAttribute(node, "training_mode");
    const bool owned =
        stored.contains(node.input(3)) && stored.contains(node.input(4));
    if (mode == nullptr || !owned) return;
    ReplaceInt(node, "training_mode", 0);
  }
  for (int output = 1; output < node.output_size() && output <= 2; ++output) {
    const std::string& name = node.output(output);
    if (name.empty() || !reads.contains(name)) continue;
    onnx::NodeProto& copy = *after.Add();
    copy.set_op_type("Identity");
    copy.set_name(name);
    copy.add_input(node.input(2 + output));
    copy.add_output(name);
  }
  while (node.output_size() > 1) node.mutable_output()->RemoveLast();
}

void Converter::ConvertDropout(onnx::NodeProto& node) const {
  if (opset_ <= kIsTest) ReplaceInt(node, "is_test", 1);
  if (opset_ < kDropoutWithMode) return;
  while (node.input_size() > 2) node.mutable_input()->RemoveLast();
}

}  // namespace

void UseInferenceNodes(onnx::ModelProto& model) {
  const int64_t opset = StandardOpset(model.opset_import(), 1);
  Converter(opset).Convert(Names(), *model.mutable_graph());
  for (onnx::FunctionProto& function : *model.mutable_functions()) {
    // Callers pass the statistics in, which they have stored.
    Names stored(function.input().begin(), function.input().end());
    Names reads(function.output().begin(), function.output().end());
    AddReads(function.node(), reads);
    Converter(StandardOpset(function.opset_import(), opset))
        .Convert(std::move(stored), reads, *function.mutable_node());
  }
}

}  // namespace gpupool::engine::onnx_import
