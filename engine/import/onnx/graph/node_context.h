// What the lowering of one ONNX node sees and does: its inputs as graph
// values, its attributes, and a builder that computes at once whatever depends
// on constants only. Lowerings are pure functions of this; they live in
// lower_*.cc and are listed in lowerings.cc.
//
// Not thread-safe; lives while one node is imported.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/builder.h"
#include "engine/import/onnx/file/host_tensor.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

class GraphImporter;

class NodeContext {
 public:
  NodeContext(const onnx::NodeProto& node, int opset, GraphImporter* importer);

  const onnx::NodeProto& node() const { return node_; }
  absl::string_view op() const;  // "Conv"
  // Version of the operator set that the model imports for the node's domain.
  int opset() const { return opset_; }
  // Batch norm and dropout behave as in training; see BuildOptions.
  bool training() const;

  // Inputs. Optional ones that are absent or "" are not there.
  int input_count() const;
  bool has_input(int i) const;
  // InvalidArgument when it is absent. A floating initializer of rank >= 1
  // becomes a trainable persistent value, every other one a constant.
  absl::StatusOr<ValueId> Input(int i);
  // The same for running statistics: state that no optimizer touches.
  absl::StatusOr<ValueId> StateInput(int i);
  // The numbers of an input: of a constant, an initializer, or what follows
  // from such. FailedPrecondition names the model's inputs that it depends on
  // otherwise; the importer then asks for them (OnnxBuildOptions::bound).
  // `what` says in words what the value is: "the target shape".
  absl::StatusOr<HostTensor> Known(int i, absl::string_view what);
  bool IsKnown(int i) const;

  const Value& value(ValueId id) const;
  const Shape& shape(ValueId id) const { return value(id).shape; }
  DType dtype(ValueId id) const { return value(id).dtype; }
  int rank(ValueId id) const { return shape(id).rank(); }
  // The numbers of a constant value; nullopt-like empty StatusOr otherwise
  // (FailedPrecondition as Known).
  absl::StatusOr<HostTensor> KnownValue(ValueId id, absl::string_view what);

  // Attributes: the default when absent, InvalidArgument when of another type.
  bool has_attribute(absl::string_view name) const;
  absl::StatusOr<int64_t> Int(absl::string_view name, int64_t otherwise) const;
  absl::StatusOr<double> Float(absl::string_view name, double otherwise) const;
  absl::StatusOr<std::string> String(absl::string_view name,
                                     absl::string_view otherwise) const;
  absl::StatusOr<std::vector<int64_t>> Ints(
      absl::string_view name, std::vector<int64_t> otherwise) const;
  absl::StatusOr<std::vector<double>> Floats(
      absl::string_view name, std::vector<double> otherwise) const;
  // A tensor attribute (dense); InvalidArgument when absent.
  absl::StatusOr<HostTensor> TensorAttribute(absl::string_view name) const;
  // An attribute that holds an element type's number (TensorProto.DataType).
  // Unimplemented for types that values cannot have.
  absl::StatusOr<DType> TypeAttribute(absl::string_view name,
                                      DType otherwise) const;
  // nullptr when absent.
  const onnx::AttributeProto* attribute(absl::string_view name) const;

  // Emits a node, or computes it at once when all inputs are constants and the
  // result has at most kMaxFoldedElements elements. Errors name the node.
  absl::StatusOr<ValueIds> EmitAll(Op op, absl::Span<const ValueId> inputs,
                                   Attributes attributes = {});
  absl::StatusOr<ValueId> Emit(Op op, absl::Span<const ValueId> inputs,
                               Attributes attributes = {});
  absl::StatusOr<ValueId> Emit(Op op, std::initializer_list<ValueId> inputs,
                               Attributes attributes = {}) {
    return Emit(op, absl::MakeConstSpan(inputs.begin(), inputs.size()),
                std::move(attributes));
  }
  // Shorthands for what lowerings do all the time. No node where nothing is to
  // be done (a reshape to the same shape, a cast to the same type).
  absl::StatusOr<ValueId> Unary(UnaryFunction function, ValueId x,
                                double alpha = 0, double beta = 0);
  absl::StatusOr<ValueId> Binary(BinaryFunction function, ValueId a, ValueId b);
  // The same with a number of x's type on the right.
  absl::StatusOr<ValueId> Binary(BinaryFunction function, ValueId a, double b);
  absl::StatusOr<ValueId> Reshape(ValueId x, absl::Span<const int64_t> dims);
  absl::StatusOr<ValueId> Transpose(ValueId x,
                                    absl::Span<const int> permutation);
  absl::StatusOr<ValueId> Cast(ValueId x, DType dtype);
  absl::StatusOr<ValueId> Reduce(ReduceFunction function, ValueId x,
                                 std::vector<int> axes, bool keep_dims);
  absl::StatusOr<ValueId> BroadcastTo(ValueId x, const Shape& shape);
  ValueId Constant(HostTensor tensor);
  ValueId Scalar(DType dtype, double number);

  // The inputs "seed" and "step" (int64 []) of the program, which it has from
  // the first call on, and a stream number that no other node uses.
  struct RandomSource {
    ValueId seed, step;
    uint64_t stream = 0;
  };
  absl::StatusOr<RandomSource> Random();
  // Declares that `value`, an output of the last emitted node, overwrites the
  // persistent value. Types must agree.
  absl::Status Update(ValueId value, ValueId persistent);
  // The graph so far, for what looks at it as a whole (Gradient). Nodes added
  // here are not computed at import.
  GraphBuilder& builder();

  // -rank .. rank - 1 to 0 .. rank - 1; InvalidArgument names the axis.
  absl::StatusOr<int> Axis(int64_t axis, int rank) const;

  int output_count() const;
  // Whether output i has a name, so that somebody may read it.
  bool wants_output(int i) const;
  // Every wanted output must be set; outputs that are not wanted may be.
  void Set(int i, ValueId id);

  // InvalidArgument "Conv 'conv1': <parts>".
  template <typename... Parts>
  absl::Status Refuse(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ": ", parts...));
  }
  // Unimplemented, the same text: an operator's form that is not supported.
  template <typename... Parts>
  absl::Status Unsupported(const Parts&... parts) const {
    return absl::UnimplementedError(absl::StrCat(Name(), ": ", parts...));
  }
  // "Conv 'conv1'"
  std::string Name() const;

  GraphImporter& importer() { return *importer_; }

 private:
  const onnx::NodeProto& node_;
  const int opset_;
  GraphImporter* importer_;
};

using Lowering = absl::Status (*)(NodeContext&);

}  // namespace gpupool::engine::onnx_import
