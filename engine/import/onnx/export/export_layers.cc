#include "engine/import/onnx/export/export_layers.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/export/export_tensor.h"
#include "engine/import/onnx/export/node_writer.h"
#include "engine/import/onnx/export/sequence_nodes.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::onnx_import {
namespace {

constexpr int kOpset = 17;
constexpr int kIrVersion = 8;

// Returns one number for both axes, or height and width. BuildModel has checked
// them.
template <typename Numbers>
std::vector<int64_t> Extents(const Numbers& numbers, int64_t fallback) {
  if (numbers.empty()) return {fallback, fallback};
  return {numbers[0], numbers[numbers.size() - 1]};
}

// Returns the padding of all sides: top, left, bottom, right.
template <typename Numbers>
std::vector<int64_t> Pads(const Numbers& numbers) {
  const std::vector<int64_t> pads = Extents(numbers, 0);
  return {pads[0], pads[1], pads[0], pads[1]};
}

// Exports layers as nodes.
class LayerExporter {
 public:
  LayerExporter(const v1::ModelSpec& spec, const ModelGraph& model,
                const std::vector<WeightTensor>& weights)
      : spec_(spec),
        model_(model),
        graph_(*proto_.mutable_graph()),
        writer_(graph_, weights),
        scaled_(std::any_of(weights.begin(), weights.end(),
                            [](const WeightTensor& weight) {
                              return weight.name == "input.scale";
                            })) {}

  absl::StatusOr<std::string> Export() {
    Describe();
    std::string x = Scaled();
    shapes_[x] = model_.input_shape;
    for (int i = 0; i < spec_.layers_size(); ++i) {
      const v1::Layer& layer = spec_.layers(i);
      const LayerInfo& info = model_.layers[static_cast<size_t>(i)];
      writer_.Begin(info.name);
      if (!layer.input().empty()) x = outputs_.find(layer.input())->second;
      x = AddLayer(layer, shapes_.find(x)->second, x);
      outputs_[info.name] = x;
      shapes_[x] = info.output_shape;
    }
    *writer_.Node("Identity", "output", {x}).mutable_output(0) = "output";
    if (!writer_.missing().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the version has no weight \"", writer_.missing(), "\""));
    }
    std::string bytes;
    if (proto_.SerializeToString(&bytes)) return bytes;
    return absl::InternalError("an ONNX model cannot be serialized");
  }

 private:
  void Describe() {
    proto_.set_ir_version(kIrVersion);
    proto_.set_producer_name("gpupool");
    onnx::OperatorSetIdProto* opset = proto_.add_opset_import();
    opset->set_domain("");
    opset->set_version(kOpset);
    graph_.set_name("model");
    DescribePort(model_.inputs[0], "input", *graph_.add_input());
    DescribePort(model_.outputs[0], "output", *graph_.add_output());
    outputs_["input"] = "input";
  }

  static void DescribePort(const ModelPort& port, const char* name,
                           onnx::ValueInfoProto& info) {
    info.set_name(name);
    onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(port.dtype == DType::kInt64 ? onnx::TensorProto::INT64
                                                   : onnx::TensorProto::FLOAT);
    type.mutable_shape()->add_dim()->set_dim_param("batch");
    for (int64_t dimension : port.shape.dims().subspan(1)) {
      type.mutable_shape()->add_dim()->set_dim_value(dimension);
    }
  }

  // Shorthands for functions of the writer that name nodes and values after the
  // layer being exported.
  onnx::NodeProto& Node(const char* op,
                        const std::vector<std::string>& inputs) {
    return writer_.Node(op, inputs);
  }
  std::string Part(const char* op, const char* part,
                   const std::vector<std::string>& inputs) {
    return writer_.Part(op, part, inputs);
  }
  std::string LayerWeight(const char* what) {
    return writer_.LayerWeight(what);
  }
  std::string Number(const char* part, double value) {
    return writer_.Number(part, value);
  }

  std::string Scaled() {
    if (!scaled_) return "input";
    // Uses other names, since training the file with a scaling takes
    // "input.scale" and "input.shift".
    const std::string scale = writer_.Weight("input.scale", "input/factor");
    const std::string product =
        writer_.Node("Mul", "input/scale", {"input", scale}).output(0);
    const std::string shift = writer_.Weight("input.shift", "input/offset");
    outputs_["input"] =
        writer_.Node("Add", "input/shift", {product, shift}).output(0);
    return outputs_["input"];
  }

  std::string AddLayer(const v1::Layer& layer, const Shape& input,
                       const std::string& x) {
    switch (layer.kind_case()) {
      case v1::Layer::kDense:
        return Dense(layer.dense(), input, x);
      case v1::Layer::kConv2D:
        return Conv2d(layer.conv2d(), x);
      case v1::Layer::kRelu:
        return Node("Relu", {x}).output(0);
      case v1::Layer::kGelu:
        return Gelu(layer.gelu(), x);
      case v1::Layer::kSigmoid:
        return Node("Sigmoid", {x}).output(0);
      case v1::Layer::kTanh:
        return Node("Tanh", {x}).output(0);
      case v1::Layer::kMaxPool:
        return Pool("MaxPool", layer.max_pool(), x).output(0);
      case v1::Layer::kAvgPool: {
        onnx::NodeProto& node = Pool("AveragePool", layer.avg_pool(), x);
        SetInt(node, "count_include_pad",
               layer.avg_pool().exclude_padding() ? 0 : 1);
        return node.output(0);
      }
      case v1::Layer::kGlobalAvgPool:
        // Our layer also flattens its result.
        return Flatten(Part("GlobalAveragePool", "mean", {x}));
      case v1::Layer::kFlatten:
        return Flatten(x);
      case v1::Layer::kBatchNorm:
        return BatchNorm(layer.batch_norm(), x);
      case v1::Layer::kLayerNorm:
        return LayerNorm(layer.layer_norm(), x);
      case v1::Layer::kSoftmax:
        return OverLastAxis("Softmax", x);
      case v1::Layer::kLogSoftmax:
        return OverLastAxis("LogSoftmax", x);
      case v1::Layer::kAdd:
        return Node("Add", {x, outputs_[layer.add().from()]}).output(0);
      case v1::Layer::kEmbedding:
        return AddEmbedding(x, writer_);
      case v1::Layer::kImageTokens:
        return AddImageTokens(x, writer_);
      case v1::Layer::kClassToken:
        return AddClassToken(input, x, writer_);
      case v1::Layer::kPositions:
        return AddPositions(layer.positions(), input, x, writer_);
      case v1::Layer::kAttention:
        return AddAttention(layer.attention(), input, x, writer_);
      case v1::Layer::kPickToken:
        return AddPickToken(layer.pick_token(), x, writer_);
      case v1::Layer::kMeanTokens:
        return AddMeanTokens(x, writer_);
      // Inference drops nothing.
      case v1::Layer::kDropout:
      case v1::Layer::KIND_NOT_SET:
        break;
    }
    return x;
  }

  std::string Dense(const v1::Dense& dense, const Shape& input,
                    const std::string& x) {
    const std::string& tied = dense.tied_to();
    const bool bias = dense.has_bias() ? dense.bias() : tied.empty();
    const std::string table = absl::StrCat(tied, ".weight");
    const std::string own =
        tied.empty() ? LayerWeight("weight") : writer_.Weight(table, table);
    if (input.rank() == 1) {
      std::vector<std::string> inputs = {x, own};
      if (bias) inputs.push_back(LayerWeight("bias"));
      onnx::NodeProto& node = Node("Gemm", inputs);
      SetInt(node, "transB", 1);
      return node.output(0);
    }
    // Gemm takes only matrices.
    onnx::NodeProto& transpose =
        writer_.PartNode("Transpose", "transpose", {own});
    SetInts(transpose, "perm", {1, 0});
    const std::string weight = transpose.output(0);
    if (!bias) return Node("MatMul", {x, weight}).output(0);
    const std::string product = Part("MatMul", "product", {x, weight});
    return Node("Add", {product, LayerWeight("bias")}).output(0);
  }

  std::string Conv2d(const v1::Conv2d& conv, const std::string& x) {
    std::vector<std::string> inputs = {x, LayerWeight("weight")};
    if (!conv.has_bias() || conv.bias()) inputs.push_back(LayerWeight("bias"));
    onnx::NodeProto& node = Node("Conv", inputs);
    SetInts(node, "kernel_shape", Extents(conv.kernel(), 1));
    SetInts(node, "strides", Extents(conv.stride(), 1));
    SetInts(node, "pads", Pads(conv.padding()));
    SetInts(node, "dilations", Extents(conv.dilation(), 1));
    SetInt(node, "group", conv.groups() == 0 ? 1 : conv.groups());
    return node.output(0);
  }

  template <typename PoolProto>
  onnx::NodeProto& Pool(const char* op, const PoolProto& pool,
                        const std::string& x) {
    onnx::NodeProto& node = Node(op, {x});
    const std::vector<int64_t> kernel = Extents(pool.kernel(), 1);
    SetInts(node, "kernel_shape", kernel);
    SetInts(node, "strides",
            pool.stride().empty() ? kernel : Extents(pool.stride(), 1));
    SetInts(node, "pads", Pads(pool.padding()));
    return node;
  }

  std::string OverLastAxis(const char* op, const std::string& x) {
    onnx::NodeProto& node = Node(op, {x});
    SetInt(node, "axis", -1);
    return node.output(0);
  }

  std::string Flatten(const std::string& x) {
    onnx::NodeProto& node = Node("Flatten", {x});
    SetInt(node, "axis", 1);
    return node.output(0);
  }

  std::string BatchNorm(const v1::BatchNorm& norm, const std::string& x) {
    onnx::NodeProto& node =
        Node("BatchNormalization",
             {x, LayerWeight("weight"), LayerWeight("bias"),
              LayerWeight("running_mean"), LayerWeight("running_var")});
    SetFloat(node, "epsilon", norm.has_epsilon() ? norm.epsilon() : 1e-5);
    return node.output(0);
  }

  std::string LayerNorm(const v1::LayerNorm& norm, const std::string& x) {
    onnx::NodeProto& node = Node(
        "LayerNormalization", {x, LayerWeight("weight"), LayerWeight("bias")});
    SetInt(node, "axis", -1);
    SetFloat(node, "epsilon", norm.has_epsilon() ? norm.epsilon() : 1e-5);
    return node.output(0);
  }

  // Operator set 17 has no Gelu. So it becomes x (1 + erf(x / sqrt 2)) / 2, or
  // the same with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) for erf.
  std::string Gelu(const v1::Gelu& gelu, const std::string& x) {
    const std::string curve =
        gelu.tanh_approximation() ? TanhCurve(x) : ErfCurve(x);
    const std::string sum = Part("Add", "sum", {curve, Number("one", 1)});
    const std::string half = Part("Mul", "half_x", {x, Number("half", 0.5)});
    return Node("Mul", {half, sum}).output(0);
  }

  std::string ErfCurve(const std::string& x) {
    const std::string scaled =
        Part("Mul", "scaled", {x, Number("sqrt_half", std::sqrt(0.5))});
    return Part("Erf", "erf", {scaled});
  }

  std::string TanhCurve(const std::string& x) {
    const std::string square = Part("Mul", "square", {x, x});
    const std::string cube = Part("Mul", "cube", {square, x});
    const std::string small =
        Part("Mul", "small", {cube, Number("cubic", 0.044715)});
    const std::string inner = Part("Add", "inner", {x, small});
    const std::string scaled = Part(
        "Mul", "scaled", {inner, Number("rate", std::sqrt(2 / std::acos(-1)))});
    return Part("Tanh", "tanh", {scaled});
  }

  const v1::ModelSpec& spec_;
  const ModelGraph& model_;
  onnx::ModelProto proto_;
  onnx::GraphProto& graph_;
  NodeWriter writer_;
  const bool scaled_;  // whether the input is scaled
  absl::flat_hash_map<std::string, std::string> outputs_;  // by layer
  // Shapes of one example, by the names of outputs.
  absl::flat_hash_map<std::string, Shape> shapes_;
};

}  // namespace

absl::StatusOr<std::string> ExportLayers(
    const v1::ModelSpec& spec, const ModelGraph& model,
    const std::vector<WeightTensor>& weights) {
  RETURN_IF_ERROR(CheckExportBytes(weights));
  return LayerExporter(spec, model, weights).Export();
}

}  // namespace gpupool::engine::onnx_import
