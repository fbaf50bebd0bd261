#include "engine/import/onnx/export/replace_weights.h"

#include <onnx/onnx_pb.h>

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/export/export_tensor.h"
#include "engine/import/onnx/export/inference_nodes.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/passes/formats/widen_halves.h"

namespace gpupool::engine::onnx_import {
namespace {

bool IsExternal(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

// Renames a value wherever it is read, in this graph and in those inside.
void Rename(const std::string& from, const std::string& to,
            onnx::GraphProto& graph) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == from) input = to;
    }
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) Rename(from, to, *attribute.mutable_g());
      for (onnx::GraphProto& inner : *attribute.mutable_graphs()) {
        Rename(from, to, inner);
      }
    }
  }
}

class Replacer {
 public:
  Replacer(const OnnxFile& file, const std::vector<WeightTensor>& weights)
      : file_(file), proto_(file.model()) {
    for (const WeightTensor& weight : weights) {
      weights_[weight.name] = &weight;
    }
  }

  absl::StatusOr<std::string> Replace() {
    RETURN_IF_ERROR(ReplaceIn(file_.model().graph(), *proto_.mutable_graph()));
    RETURN_IF_ERROR(ScaleInput());
    UseInferenceNodes(proto_);
    std::string bytes;
    // Protobuf takes no message above 2 GiB.
    if (proto_.ByteSizeLong() <= INT32_MAX &&
        proto_.SerializeToString(&bytes)) {
      return bytes;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the model with its data has ", proto_.ByteSizeLong(),
                     " bytes, but one ONNX file holds at most ", INT32_MAX,
                     "; export the weights as safetensors"));
  }

 private:
  // Replaces the weights in `graph`. Only tensors of its source `original` have
  // stored names.
  absl::Status ReplaceIn(const onnx::GraphProto& original,
                         onnx::GraphProto& graph) {
    for (int i = 0; i < graph.initializer_size(); ++i) {
      RETURN_IF_ERROR(ReplaceTensor(original.initializer(i),
                                    *graph.mutable_initializer(i)));
    }
    for (int i = 0; i < graph.node_size(); ++i) {
      RETURN_IF_ERROR(ReplaceIn(original.node(i), *graph.mutable_node(i)));
    }
    return absl::OkStatus();
  }

  absl::Status ReplaceIn(const onnx::NodeProto& original,
                         onnx::NodeProto& node) {
    for (int i = 0; i < node.attribute_size(); ++i) {
      const onnx::AttributeProto& from = original.attribute(i);
      onnx::AttributeProto& to = *node.mutable_attribute(i);
      if (to.has_g()) RETURN_IF_ERROR(ReplaceIn(from.g(), *to.mutable_g()));
      for (int g = 0; g < to.graphs_size(); ++g) {
        RETURN_IF_ERROR(ReplaceIn(from.graphs(g), *to.mutable_graphs(g)));
      }
      if (to.has_t() && IsExternal(from.t())) {
        RETURN_IF_ERROR(TakeIn(from.t(), *to.mutable_t()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReplaceTensor(const onnx::TensorProto& original,
                             onnx::TensorProto& tensor) {
    const auto found = weights_.find(file_.stored_name(original));
    // Widened weights are never trained, so the file's own numbers hold.
    if (found == weights_.end() || IsWidened(original.data_type())) {
      return IsExternal(original) ? TakeIn(original, tensor) : absl::OkStatus();
    }
    const WeightTensor& weight = *found->second;
    ASSIGN_OR_RETURN(const TensorType type,
                     DescribeTensor(original, file_.external()));
    const bool rounded = IsHalf(type.dtype) && weight.dtype == DType::kFloat32;
    if ((type.dtype != weight.dtype && !rounded) ||
        type.shape != weight.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "weight \"", weight.name, "\" is ", DTypeName(weight.dtype),
          weight.shape.ToString(), ", the model's is ", DTypeName(type.dtype),
          type.shape.ToString()));
    }
    // The name may differ from stored_name().
    return Fill(weight, tensor.name(), type.dtype, tensor);
  }

  // Fills the tensor in with a weight, rounded to `dtype` if that is narrower.
  // The name is a copy, since FillTensor replaces that of the tensor.
  static absl::Status Fill(const WeightTensor& weight, std::string name,
                           DType dtype, onnx::TensorProto& tensor) {
    FillTensor(weight, tensor);
    tensor.set_name(std::move(name));
    if (dtype == weight.dtype) return absl::OkStatus();
    ASSIGN_OR_RETURN(*tensor.mutable_raw_data(), RoundToHalf(weight, dtype));
    tensor.set_data_type(OnnxType(dtype));
    return absl::OkStatus();
  }

  // Moves external data into the file. They are raw bytes, so the element type
  // stays.
  absl::Status TakeIn(const onnx::TensorProto& original,
                      onnx::TensorProto& tensor) {
    if (IsWidened(original.data_type())) {
      return absl::UnimplementedError(absl::StrCat(
          "tensor \"", original.name(), "\": external data of type ",
          OnnxTypeName(original.data_type()), " cannot be exported"));
    }
    ASSIGN_OR_RETURN(const TensorType type,
                     DescribeTensor(original, file_.external()));
    taken_bytes_ += type.shape.bytes(type.dtype);
    if (taken_bytes_ > kMaxExportBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the model's external data have more than ", kMaxExportBytes,
          " bytes, which one ONNX file cannot hold; export the weights as "
          "safetensors"));
    }
    std::string bytes(type.shape.bytes(type.dtype), '\0');
    RETURN_IF_ERROR(
        CopyTensor(original, file_.external(),
                   {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
    tensor.clear_external_data();
    tensor.clear_data_location();
    *tensor.mutable_raw_data() = std::move(bytes);
    return absl::OkStatus();
  }

  absl::Status ScaleInput() {
    const auto scale = weights_.find("input.scale");
    const auto shift = weights_.find("input.shift");
    if (scale == weights_.end() || shift == weights_.end() ||
        file_.stored("input.scale") != nullptr) {  // a tensor of the file
      return absl::OkStatus();
    }
    onnx::GraphProto& graph = *proto_.mutable_graph();
    const onnx::ValueInfoProto* const port = FirstInput(graph);
    if (port == nullptr) return absl::OkStatus();
    const std::string input = port->name();
    const absl::StatusOr<DType> declared =
        DTypeFromOnnx(port->type().tensor_type().elem_type());
    const DType dtype =
        declared.ok() && IsHalf(*declared) ? *declared : scale->second->dtype;
    // The file may be the export of a scaled model, so the prefix must be new.
    std::string prefix = absl::StrCat(input, "/");
    while (HasNameWith(prefix, graph)) prefix += "/";
    const std::string scaled = absl::StrCat(prefix, "scaled");
    const std::string shifted = absl::StrCat(prefix, "shifted");
    Rename(input, shifted, graph);
    const std::string factor = prefix + "factor", offset = prefix + "offset";
    RETURN_IF_ERROR(
        Fill(*scale->second, factor, dtype, *graph.add_initializer()));
    RETURN_IF_ERROR(
        Fill(*shift->second, offset, dtype, *graph.add_initializer()));
    onnx::GraphProto front;
    AddNode("Mul", {input, factor}, scaled, front);
    AddNode("Add", {scaled, offset}, shifted, front);
    // Producers must precede their readers.
    front.mutable_node()->MergeFrom(graph.node());
    graph.mutable_node()->Swap(front.mutable_node());
    return absl::OkStatus();
  }

  static bool HasNameWith(const std::string& prefix,
                          const onnx::GraphProto& graph) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      if (absl::StartsWith(tensor.name(), prefix)) return true;
    }
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) {
        if (absl::StartsWith(output, prefix)) return true;
      }
    }
    return false;
  }

  // Returns the first input that is no initializer; null without one. Older
  // files list both as inputs.
  static const onnx::ValueInfoProto* FirstInput(const onnx::GraphProto& graph) {
    for (const onnx::ValueInfoProto& input : graph.input()) {
      bool stored = false;
      for (const onnx::TensorProto& tensor : graph.initializer()) {
        stored = stored || tensor.name() == input.name();
      }
      if (!stored) return &input;
    }
    return nullptr;
  }

  static void AddNode(const char* op, const std::vector<std::string>& inputs,
                      const std::string& output, onnx::GraphProto& graph) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(op);
    node.set_name(output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
  }

  const OnnxFile& file_;
  onnx::ModelProto proto_;
  absl::flat_hash_map<std::string, const WeightTensor*> weights_;
  uint64_t taken_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::string> ReplaceWeights(
    const OnnxFile& file, const std::vector<WeightTensor>& weights) {
  RETURN_IF_ERROR(CheckExportBytes(weights));
  return Replacer(file, weights).Replace();
}

}  // namespace gpupool::engine::onnx_import
