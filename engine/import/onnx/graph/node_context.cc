#include "engine/import/onnx/graph/node_context.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/narrow_types.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/graph_importer.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::AttributeProto;

// Reads a tensor after charging the budget, since a loop may read a large
// tensor again and again.
absl::StatusOr<HostTensor> ReadChecked(GraphImporter& importer,
                                       const onnx::TensorProto& tensor) {
  constexpr int64_t kNumbersPerPart = 64;
  ASSIGN_OR_RETURN(const TensorType type,
                   DescribeTensor(tensor, importer.file().external()));
  ImportBudget& budget = importer.values().budget();
  const int64_t elements = type.shape.elements();
  RETURN_IF_ERROR(budget.CheckRoom(static_cast<uint64_t>(elements) * 8));
  RETURN_IF_ERROR(budget.Visit(elements / kNumbersPerPart));
  return ReadTensor(tensor, importer.file().external());
}

}  // namespace

NodeContext::NodeContext(const onnx::NodeProto& node, int opset,
                         GraphImporter* importer)
    : node_(node), opset_(opset), importer_(importer) {}

absl::string_view NodeContext::op() const { return node_.op_type(); }

bool NodeContext::training() const { return importer_->options().training; }

std::string NodeContext::Name() const { return NodeTitle(node_); }

int NodeContext::input_count() const { return node_.input_size(); }

bool NodeContext::has_input(int i) const {
  if (i < 0 || i >= node_.input_size()) return false;
  const Entry* entry = importer_->Find(node_.input(i));
  return entry != nullptr && (entry->is_tensor() || entry->is_sequence());
}

int NodeContext::ElementType(int i) const {
  return has_input(i) ? importer_->Find(node_.input(i))->element_type : 0;
}

absl::StatusOr<ValueId> NodeContext::Input(int i) {
  if (!has_input(i)) return Refuse("input ", i, " is missing");
  const Entry* entry = importer_->Find(node_.input(i));
  if (!entry->is_tensor()) return Refuse("input ", i, " is not a tensor");
  return importer_->Materialize(*entry, MemoryClass::kWeight);
}

absl::StatusOr<ValueId> NodeContext::StateInput(int i) {
  if (!has_input(i)) return Refuse("input ", i, " is missing");
  const Entry* entry = importer_->Find(node_.input(i));
  if (!entry->is_tensor()) return Refuse("input ", i, " is not a tensor");
  return importer_->Materialize(*entry, MemoryClass::kState);
}

absl::StatusOr<HostTensor> NodeContext::Known(int i, absl::string_view what) {
  if (!has_input(i)) return Refuse("input ", i, " (", what, ") is missing");
  return importer_->Numbers(*importer_->Find(node_.input(i)), Name(), what);
}

bool NodeContext::IsKnown(int i) const {
  return has_input(i) &&
         importer_->HasNumbers(*importer_->Find(node_.input(i)));
}

const Value& NodeContext::value(ValueId id) const {
  return importer_->values().value(id);
}

absl::StatusOr<HostTensor> NodeContext::KnownValue(ValueId id,
                                                   absl::string_view what) {
  return importer_->Numbers(Entry::Tensor(id), Name(), what);
}

const AttributeProto* NodeContext::attribute(absl::string_view name) const {
  for (const AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

bool NodeContext::has_attribute(absl::string_view name) const {
  return attribute(name) != nullptr;
}

absl::StatusOr<int64_t> NodeContext::Int(absl::string_view name,
                                         int64_t otherwise) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (found->has_i()) return found->i();
  return Refuse("attribute '", name, "' is not an integer");
}

absl::StatusOr<double> NodeContext::Float(absl::string_view name,
                                          double otherwise) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (found->has_f()) return found->f();
  return Refuse("attribute '", name, "' is not a number");
}

absl::StatusOr<std::string> NodeContext::String(
    absl::string_view name, absl::string_view otherwise) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return std::string(otherwise);
  if (found->has_s()) return found->s();
  return Refuse("attribute '", name, "' is not a text");
}

absl::StatusOr<std::vector<int64_t>> NodeContext::Ints(
    absl::string_view name, std::vector<int64_t> otherwise) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (found->type() != AttributeProto::INTS && found->ints().empty()) {
    return Refuse("attribute '", name, "' is not a list of integers");
  }
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

absl::StatusOr<std::vector<double>> NodeContext::Floats(
    absl::string_view name, std::vector<double> otherwise) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (found->type() != AttributeProto::FLOATS && found->floats().empty()) {
    return Refuse("attribute '", name, "' is not a list of numbers");
  }
  return std::vector<double>(found->floats().begin(), found->floats().end());
}

absl::StatusOr<std::vector<std::string>> NodeContext::Strings(
    absl::string_view name) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return std::vector<std::string>();
  if (found->type() != AttributeProto::STRINGS && found->strings().empty()) {
    return Refuse("attribute '", name, "' is not a list of texts");
  }
  return std::vector<std::string>(found->strings().begin(),
                                  found->strings().end());
}

absl::StatusOr<HostTensor> NodeContext::TensorAttribute(
    absl::string_view name) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr || !found->has_t()) {
    return Refuse("attribute '", name, "' must be a tensor");
  }
  absl::StatusOr<HostTensor> tensor = ReadChecked(*importer_, found->t());
  if (tensor.ok()) return tensor;
  return AtPlace(absl::StrCat(Name(), ": attribute '", name, "'"),
                 tensor.status());
}

absl::StatusOr<DType> NodeContext::TypeAttribute(absl::string_view name,
                                                 DType otherwise) const {
  if (!has_attribute(name)) return otherwise;
  ASSIGN_OR_RETURN(const int64_t number, Int(name, 0));
  absl::StatusOr<DType> dtype =
      DTypeFromOnnx(static_cast<int>(std::clamp<int64_t>(number, -1, 1000)));
  if (!dtype.ok()) return Unsupported(dtype.status().message());
  if (FindNarrowType(static_cast<int>(number)) != nullptr) {
    return Unsupported("numbers of type ",
                       OnnxTypeName(static_cast<int>(number)), " are not");
  }
  return dtype;
}

absl::StatusOr<ValueIds> NodeContext::EmitAll(Op op,
                                              absl::Span<const ValueId> inputs,
                                              Attributes attributes) {
  return Named(importer_->values().Emit(op, inputs, std::move(attributes)));
}

absl::StatusOr<ValueId> NodeContext::EmitUnfolded(
    Op op, absl::Span<const ValueId> inputs, Attributes attributes) {
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   Named(importer_->values().EmitUnfolded(
                       op, inputs, std::move(attributes))));
  return outputs[0];
}

absl::StatusOr<ValueIds> NodeContext::Named(
    absl::StatusOr<ValueIds> outputs) const {
  if (outputs.ok()) return outputs;
  // The builder's text names the layer, which is the outermost node. This
  // node's name replaces it.
  absl::string_view text = outputs.status().message();
  if (absl::StartsWith(text, "layer '")) {
    const size_t end = text.find("': ");
    if (end != absl::string_view::npos) text.remove_prefix(end + 3);
  }
  return absl::Status(outputs.status().code(),
                      absl::StrCat(Name(), ": ", text));
}

absl::StatusOr<ValueId> NodeContext::Emit(Op op,
                                          absl::Span<const ValueId> inputs,
                                          Attributes attributes) {
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   EmitAll(op, inputs, std::move(attributes)));
  return outputs[0];
}

absl::StatusOr<ValueId> NodeContext::Unary(UnaryFunction function, ValueId x,
                                           double alpha, double beta) {
  return Emit(Op::kUnary, {x}, UnaryAttributes{function, alpha, beta});
}

absl::StatusOr<ValueId> NodeContext::Binary(BinaryFunction function, ValueId a,
                                            ValueId b) {
  return Emit(Op::kBinary, {a, b}, BinaryAttributes{function});
}

absl::StatusOr<ValueId> NodeContext::Binary(BinaryFunction function, ValueId a,
                                            double b) {
  return Binary(function, a, Scalar(dtype(a), b));
}

absl::StatusOr<ValueId> NodeContext::Reshape(ValueId x,
                                             absl::Span<const int64_t> dims) {
  absl::StatusOr<Shape> wanted = Shape::CreateMaybeEmpty(dims);
  if (!wanted.ok()) return Refuse(wanted.status().message());
  if (*wanted == shape(x)) return x;
  return Emit(Op::kReshape, {x}, ShapeAttributes{*wanted});
}

absl::StatusOr<ValueId> NodeContext::Transpose(
    ValueId x, absl::Span<const int> permutation) {
  std::vector<int> same(permutation.size());
  std::iota(same.begin(), same.end(), 0);
  if (static_cast<int>(same.size()) == rank(x) &&
      std::equal(same.begin(), same.end(), permutation.begin())) {
    return x;
  }
  return Emit(Op::kTranspose, {x},
              TransposeAttributes{{permutation.begin(), permutation.end()}});
}

absl::StatusOr<ValueId> NodeContext::Cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return Emit(Op::kCast, {x}, CastAttributes{to});
}

absl::StatusOr<ValueId> NodeContext::Reduce(ReduceFunction function, ValueId x,
                                            std::vector<int> axes,
                                            bool keep_dims) {
  if (axes.empty()) return x;
  return Emit(Op::kReduce, {x},
              ReduceAttributes{function, std::move(axes), keep_dims});
}

absl::StatusOr<ValueId> NodeContext::BroadcastTo(ValueId x,
                                                 const Shape& wanted) {
  if (wanted == shape(x)) return x;
  return Emit(Op::kBroadcast, {x}, ShapeAttributes{wanted});
}

ValueId NodeContext::Constant(HostTensor tensor) {
  return importer_->values().Constant(std::move(tensor));
}

ValueId NodeContext::Scalar(DType dtype, double number) {
  return Constant({dtype, Shape(), {number}});
}

// Adds a seed and a step. Without training nothing counts steps, so every run
// draws the numbers of the first step.
absl::StatusOr<NodeContext::RandomSource> NodeContext::Random() {
  if (importer_->stages().in_iteration()) {
    return Refuse("random numbers would be the same in every iteration of a ",
                  "loop whose number of iterations depends on computed values; "
                  "draw them before the loop");
  }
  RandomSource source;
  source.stream = importer_->NewStream(NodeName(node_));
  if (!training()) {
    source.seed = Scalar(DType::kInt64, 0);
    source.step = Scalar(DType::kInt64, 1);
    return source;
  }
  const TensorType scalar{DType::kInt64, Shape()};
  ASSIGN_OR_RETURN(source.seed, builder().Input("seed", scalar));
  ASSIGN_OR_RETURN(source.step, builder().Input("step", scalar));
  return source;
}

absl::Status NodeContext::Update(ValueId value, ValueId persistent) {
  return builder().Update(value, persistent);
}

GraphBuilder& NodeContext::builder() { return importer_->values().builder(); }

absl::StatusOr<int> NodeContext::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    return Refuse("axis ", axis, " is not from ", -rank, " to ", rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int NodeContext::output_count() const { return node_.output_size(); }

bool NodeContext::wants_output(int i) const {
  return i >= 0 && i < node_.output_size() && !node_.output(i).empty();
}

void NodeContext::Set(int i, ValueId id, int element_type) {
  if (wants_output(i)) {
    importer_->scope().Define(node_.output(i), Entry::Tensor(id, element_type));
  }
}

}  // namespace gpupool::engine::onnx_import
