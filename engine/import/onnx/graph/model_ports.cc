// Determines the sizes of the model's inputs, and which ports have a batch
// dimension.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/size_expression.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/graph_importer.h"

namespace gpupool::engine::onnx_import {
namespace {

using Dimension = onnx::TensorShapeProto_Dimension;

// Returns the shape of one example, which has no batch dimension.
Shape Example(const ModelPort& port) {
  if (!port.batched) return port.shape;
  return *Shape::CreateMaybeEmpty(port.shape.dims().subspan(1));
}

template <typename... Parts>
absl::Status Refuse(const onnx::ValueInfoProto& port, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", port.name(), "': ", parts...));
}

// Tells whether a first dimension is the batch. Such a dimension has no size,
// and no name with a given size.
bool IsBatch(const OnnxBuildOptions& options, const std::string& input,
             const Dimension& dim) {
  return !dim.has_dim_value() &&
         !options.dimensions.contains(dim.dim_param()) &&
         !options.unbatched_inputs.contains(input);
}

struct InputShape {
  Shape shape;
  bool batched = false;
};

absl::StatusOr<int64_t> SizeOfDimension(const OnnxBuildOptions& options,
                                        const onnx::ValueInfoProto& input,
                                        int axis, const Dimension& dim) {
  if (dim.has_dim_value()) return dim.dim_value();
  const auto given = options.dimensions.find(dim.dim_param());
  if (given != options.dimensions.end()) return given->second;
  if (dim.dim_param().empty()) {
    return Refuse(input, "dimension ", axis,
                  " has neither a size nor a name, so no option can name it; "
                  "export the model with fixed sizes or named dimensions");
  }
  const absl::StatusOr<SizeExpression> expression =
      SizeExpression::Parse(dim.dim_param());
  if (expression.ok() && !expression->IsName()) {
    return Refuse(input, "dimension ", axis, " is called '", dim.dim_param(),
                  "' and has no size; give sizes of ",
                  absl::StrJoin(expression->names(), ", "),
                  ", or one of its own, with `--dimension NAME=SIZE`, or in a "
                  "job file under `dimensions`");
  }
  return Refuse(input, "dimension ", axis, " is called '", dim.dim_param(),
                "' and has no size; give one with `--dimension ",
                dim.dim_param(),
                "=SIZE`, or in a job file under `dimensions`, ",
                "or a size that follows from others, as in `--dimension ",
                dim.dim_param(), "=past+sequence`");
}

absl::StatusOr<InputShape> ShapeOfInput(const OnnxBuildOptions& options,
                                        const onnx::ValueInfoProto& input) {
  InputShape result;
  const auto& type = input.type().tensor_type();
  const auto given = options.input_shapes.find(input.name());
  if (!type.has_shape() && given == options.input_shapes.end()) {
    return Refuse(input, "the model declares no shape for this input");
  }
  const bool may_batch = type.shape().dim_size() > 0;
  result.batched =
      may_batch && IsBatch(options, input.name(), type.shape().dim(0));
  if (given != options.input_shapes.end()) {
    result.shape = given->second;
    return result;
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
    if (axis == 0 && result.batched) {
      dims.push_back(options.batch);
      continue;
    }
    ASSIGN_OR_RETURN(
        dims.emplace_back(),
        SizeOfDimension(options, input, axis, type.shape().dim(axis)));
  }
  absl::StatusOr<Shape> shape = Shape::CreateMaybeEmpty(dims);
  if (!shape.ok()) return Refuse(input, shape.status().message());
  result.shape = *shape;
  return result;
}

absl::StatusOr<DType> DTypeOfInput(GraphImporter& importer,
                                   const onnx::ValueInfoProto& input) {
  const int type = input.type().tensor_type().elem_type();
  absl::StatusOr<DType> dtype = DTypeFromOnnx(type);
  if (!dtype.ok()) {
    return absl::Status(
        dtype.status().code(),
        absl::StrCat("input '", input.name(), "': ", dtype.status().message()));
  }
  if (type == onnx::TensorProto::UINT64) {
    importer.Warn(absl::StrCat(
        "input '", input.name(), "' is UINT64 and computed as int64: requests ",
        "with numbers above ", std::numeric_limits<int64_t>::max(),
        " are refused"));
  } else if (IsWidened(type) && !WidenedFromOnnx(type).has_value()) {
    importer.Warn(absl::StrCat("input '", input.name(), "' is ",
                               OnnxTypeName(type), " and taken as ",
                               DTypeName(*dtype)));
  }
  return dtype;
}

// Adds the first input, transformed by input.scale and input.shift.
absl::StatusOr<ValueId> ScaleInput(GraphImporter& importer, ValueId input) {
  ModelGraph& model = importer.model();
  const ModelPort& port = model.inputs[0];
  if (!IsFloating(port.dtype) || !port.batched) {
    return absl::InvalidArgumentError(
        absl::StrCat("input '", port.name, "' cannot be scaled: it is ",
                     port.batched ? "not floating" : "not batched"));
  }
  GraphBuilder& builder = importer.values().builder();
  ValueIds operands{input};
  for (const bool scale : {true, false}) {
    const std::string name = scale ? "input.scale" : "input.shift";
    const TensorType type{port.dtype, Example(port)};
    ASSIGN_OR_RETURN(operands.emplace_back(),
                     builder.Persistent(name, type, MemoryClass::kState));
    model.persistents.push_back({.name = name,
                                 .dtype = type.dtype,
                                 .shape = type.shape,
                                 .memory_class = MemoryClass::kState,
                                 .initializer = {.value = scale ? 1.0 : 0.0}});
  }
  return builder.EmitOne(Op::kScaleShift, operands);
}

absl::Status AddTensorInput(GraphImporter& importer, Scope& scope,
                            const onnx::ValueInfoProto& input,
                            absl::string_view scope_name) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeOfInput(importer, input));
  const int element_type = input.type().tensor_type().elem_type();
  const auto bound = importer.options().bound.find(input.name());
  if (bound != importer.options().bound.end()) {
    // A bound input becomes a constant, not an input of the graph.
    HostTensor tensor = bound->second;
    const auto count = static_cast<size_t>(tensor.shape.elements());
    if (tensor.dtype != dtype || tensor.numbers.size() != count) {
      return Refuse(input, "is bound to ", tensor.numbers.size(), " ",
                    DTypeName(tensor.dtype), " numbers for ",
                    tensor.shape.ToString(), " ", DTypeName(dtype));
    }
    importer.model().bound.push_back({input.name(), ValueId{}, dtype,
                                      tensor.shape, false,
                                      WidenedFromOnnx(element_type)});
    scope.Define(scope_name,
                 Entry::Tensor(importer.values().Constant(std::move(tensor)),
                               element_type));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const InputShape shape,
                   ShapeOfInput(importer.options(), input));
  ASSIGN_OR_RETURN(const ValueId id, importer.values().builder().Input(
                                         input.name(), {dtype, shape.shape}));
  importer.model().inputs.push_back({input.name(), id, dtype, shape.shape,
                                     shape.batched,
                                     WidenedFromOnnx(element_type)});
  if (shape.shape.elements() == 0) {
    // Nothing reads the input: a tensor without elements is a constant.
    scope.Define(scope_name,
                 Entry::Tensor(importer.values().Constant({dtype, shape.shape}),
                               element_type));
    return absl::OkStatus();
  }
  const bool scaled =
      importer.options().input_scaling && importer.model().inputs.size() == 1;
  ASSIGN_OR_RETURN(const ValueId x, scaled ? ScaleInput(importer, id)
                                           : absl::StatusOr<ValueId>(id));
  scope.Define(scope_name, Entry::Tensor(x, element_type));
  return absl::OkStatus();
}

// Adds one input per element of a sequence or of an optional.
absl::Status AddListInput(GraphImporter& importer, Scope& scope,
                          const onnx::ValueInfoProto& input) {
  onnx::TypeProto type = input.type();
  if (type.has_optional_type()) {
    // The copy is needed: the inner type is part of `type`.
    const onnx::TypeProto inner = type.optional_type().elem_type();
    type = inner;
  }
  const auto length = importer.options().sequence_lengths.find(input.name());
  if (length == importer.options().sequence_lengths.end()) {
    return absl::UnimplementedError(
        absl::StrCat("input '", input.name(),
                     "' is a sequence or an optional, whose length is not "
                     "known"));
  }
  const bool sequence = type.has_sequence_type();
  const onnx::TypeProto element =
      sequence ? type.sequence_type().elem_type() : type;
  if (!element.has_tensor_type()) {
    return absl::UnimplementedError(absl::StrCat(
        "input '", input.name(), "' holds something else than tensors"));
  }
  std::vector<Entry> entries;
  for (int i = 0; i < length->second; ++i) {
    onnx::ValueInfoProto port;
    port.set_name(absl::StrCat(input.name(), "[", i, "]"));
    *port.mutable_type() = element;
    RETURN_IF_ERROR(AddTensorInput(importer, scope, port, port.name()));
    entries.push_back(*scope.Find(port.name()));
  }
  if (sequence && length->second >= 0) {
    scope.Define(input.name(), Entry::Sequence(std::move(entries)));
  } else {
    scope.Define(input.name(), entries.empty() ? Entry() : entries[0]);
  }
  return absl::OkStatus();
}

// The names of dimensions that are the batch of some input.
struct BatchNames {
  bool any_input = false;
  absl::flat_hash_set<std::string> names;
};

BatchNames FindBatchNames(GraphImporter& importer) {
  BatchNames batch;
  for (const ModelPort& port : importer.model().inputs) {
    batch.any_input |= port.batched;
  }
  for (const auto& input : importer.file().model().graph().input()) {
    const auto& shape = input.type().tensor_type().shape();
    if (shape.dim_size() == 0 || shape.dim(0).dim_param().empty()) continue;
    if (IsBatch(importer.options(), input.name(), shape.dim(0))) {
      batch.names.insert(shape.dim(0).dim_param());
    }
  }
  return batch;
}

// Tells whether an output's first dimension is the batch.
//
// It must have the batch's size. That is a coincidence if the model declares
// this very size, or a name with a given size that no input's batch has.
bool IsBatched(const GraphImporter& importer, const BatchNames& batch,
               const onnx::ValueInfoProto& output, const Shape& shape) {
  if (!batch.any_input || shape.rank() == 0) return false;
  if (shape[0] != importer.options().batch) return false;
  const auto& declared = output.type().tensor_type().shape();
  if (declared.dim_size() == 0) return true;
  const Dimension& dim = declared.dim(0);
  if (dim.has_dim_value()) return dim.dim_value() != shape[0];
  return !importer.options().dimensions.contains(dim.dim_param()) ||
         batch.names.contains(dim.dim_param());
}

// Returns the type in which clients read an output that is computed as `dtype`.
// The nodes' types are known for few values (Entry::element_type), so the
// declaration counts unless it contradicts what is known.
std::optional<WidenedType> DeclaredType(const onnx::ValueInfoProto& declared,
                                        const Entry& entry, DType dtype) {
  const int type = declared.type().tensor_type().elem_type();
  if (entry.element_type != 0 && entry.element_type != type) {
    return std::nullopt;
  }
  const std::optional<WidenedType> widened = WidenedFromOnnx(type);
  if (!widened.has_value() || HeldAs(*widened) != dtype) return std::nullopt;
  return widened;
}

// Warns of an output that the model declares with another type or shape than it
// computes. No refusal: the nodes alone decide what is computed, and exporters
// leave outdated declarations behind. But clients may rely on them.
void WarnOfOtherOutput(GraphImporter& importer,
                       const onnx::ValueInfoProto& declared,
                       std::optional<WidenedType> served,
                       const Value& computed) {
  const auto& type = declared.type().tensor_type();
  const absl::StatusOr<DType> dtype = DTypeFromOnnx(type.elem_type());
  const bool same = dtype.ok() && *dtype == computed.dtype &&
                    served == WidenedFromOnnx(type.elem_type());
  if (dtype.ok() && !same) {
    importer.Warn(absl::StrCat("output '", declared.name(), "' is declared as ",
                               OnnxTypeName(type.elem_type()),
                               ", and the model computes ",
                               DTypeName(computed.dtype), ", which is served"));
  }
  if (!type.has_shape()) return;
  bool differs = type.shape().dim_size() != computed.shape.rank();
  for (int axis = 0; !differs && axis < computed.shape.rank(); ++axis) {
    const Dimension& dim = type.shape().dim(axis);
    differs = dim.has_dim_value() && dim.dim_value() != computed.shape[axis];
  }
  if (!differs) return;
  const auto size = [](std::string* text, const Dimension& dim) {
    absl::StrAppend(text, dim.has_dim_value() ? absl::StrCat(dim.dim_value())
                          : dim.dim_param().empty() ? "?"
                                                    : dim.dim_param());
  };
  importer.Warn(absl::StrCat("output '", declared.name(),
                             "' is declared with shape [",
                             absl::StrJoin(type.shape().dim(), ", ", size),
                             "], and the model computes ",
                             computed.shape.ToString(), ", which is served"));
}

// The outputs of the model that a Loop stacks, a row for each iteration, with
// the name of the Loop.
using StackedOutputs =
    absl::flat_hash_map<absl::string_view, absl::string_view>;

// Finds the scan outputs of the Loops of the graph, not of those inside others.
// A Loop without a name has the one of its first output.
StackedOutputs FindStackedOutputs(const onnx::GraphProto& graph) {
  StackedOutputs stacked;
  for (const onnx::NodeProto& node : graph.node()) {
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    if (node.op_type() != "Loop" || !standard) continue;
    absl::string_view name = node.name();
    for (int i = 0; i < node.output_size() && name.empty(); ++i) {
      name = node.output(i);
    }
    // The first two inputs are the trip count and the condition. Each other one
    // is carried and has an output, before the scan outputs.
    for (int i = std::max(node.input_size() - 2, 0); i < node.output_size();
         ++i) {
      if (!node.output(i).empty()) stacked[node.output(i)] = name;
    }
  }
  return stacked;
}

// An output, or an item of one that is a list.
struct NamedEntry {
  std::string name;
  const Entry& entry;
};

absl::Status AddOutput(GraphImporter& importer, const BatchNames& batch,
                       const onnx::ValueInfoProto& declared,
                       const NamedEntry& output) {
  const auto& [name, entry] = output;
  if (entry.is_sequence()) {
    for (size_t i = 0; i < entry.sequence->size(); ++i) {
      RETURN_IF_ERROR(AddOutput(importer, batch, declared,
                                {.name = absl::StrCat(name, "[", i, "]"),
                                 .entry = (*entry.sequence)[i]}));
    }
    return absl::OkStatus();
  }
  if (!entry.is_tensor()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId id,
                   importer.Materialize(entry, MemoryClass::kWeight));
  // Programs keep about as much again for the port.
  RETURN_IF_ERROR(
      importer.values().budget().Hold(2 * (sizeof(ModelPort) + name.size())));
  const Value& value = importer.values().value(id);
  const std::optional<WidenedType> served =
      DeclaredType(declared, entry, value.dtype);
  if (declared.type().has_tensor_type()) {
    WarnOfOtherOutput(importer, declared, served, value);
  }
  importer.model().outputs.push_back(
      {name, id, value.dtype, value.shape,
       IsBatched(importer, batch, declared, value.shape), served});
  return absl::OkStatus();
}

}  // namespace

absl::Status AddModelInputs(GraphImporter& importer, Scope& scope) {
  const onnx::GraphProto& graph = importer.file().model().graph();
  absl::flat_hash_set<absl::string_view> initializers;
  for (const auto& tensor : graph.initializer()) {
    initializers.insert(tensor.name());
  }
  importer.values().builder().SetSource("input", -1);
  for (const auto& input : graph.input()) {
    // Older files list initializers as inputs too.
    if (initializers.contains(input.name()) &&
        !importer.options().bound.contains(input.name())) {
      continue;
    }
    const bool tensor = input.type().has_tensor_type();
    RETURN_IF_ERROR(tensor
                        ? AddTensorInput(importer, scope, input, input.name())
                        : AddListInput(importer, scope, input));
  }
  return absl::OkStatus();
}

absl::Status AddModelOutputs(GraphImporter& importer, const Scope& scope) {
  const onnx::GraphProto& graph = importer.file().model().graph();
  ModelGraph& model = importer.model();
  const BatchNames batch = FindBatchNames(importer);
  const StackedOutputs stacked = FindStackedOutputs(graph);
  for (const auto& output : graph.output()) {
    const Entry* entry = scope.Find(output.name());
    if (entry == nullptr) return Refuse(output, "the output has no value");
    RETURN_IF_ERROR(AddOutput(importer, batch, output,
                              {.name = output.name(), .entry = *entry}));
    const auto loop = stacked.find(output.name());
    if (loop == stacked.end() || !entry->is_tensor()) continue;
    model.outputs.back().loop = std::string(loop->second);
  }
  if (graph.output().empty()) {
    return absl::InvalidArgumentError("the model has no outputs");
  }
  if (!model.inputs.empty()) model.input_shape = Example(model.inputs[0]);
  if (!model.outputs.empty()) {
    model.output = model.outputs[0].value;
    model.output_shape = Example(model.outputs[0]);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine::onnx_import
