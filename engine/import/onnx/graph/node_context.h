// The context in which an ONNX node is lowered: its inputs as graph values, its
// attributes, and a builder that computes at once everything that depends only
// on constants. Lowerings are pure functions of this context. They live in
// lower_*.cc and are listed in lowerings.cc.
//
// Thread-safety: one thread at a time. Lives while one node is imported.
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
  // Returns the version of the node's operator set that the model imports.
  int opset() const { return opset_; }
  // Returns whether batch norm and dropout behave as in training (see
  // BuildOptions).
  bool training() const;

  // Describe the inputs. An optional input that is absent or "" is not there.
  int input_count() const;
  bool has_input(int i) const;
  // Returns an input. INVALID_ARGUMENT when it is absent. An initializer
  // becomes a trainable persistent value if it is floating of rank >= 1, else a
  // constant.
  absl::StatusOr<ValueId> Input(int i);
  // Returns an input that is a running statistic: state that no optimizer
  // changes.
  absl::StatusOr<ValueId> StateInput(int i);
  // Returns the numbers of an input that follows from constants and
  // initializers only. Otherwise FAILED_PRECONDITION names the model's inputs
  // that it depends on, and the importer asks for them
  // (OnnxBuildOptions::bound). `what` describes the value, as "the target
  // shape".
  absl::StatusOr<HostTensor> Known(int i, absl::string_view what);
  bool IsKnown(int i) const;
  // Returns the type that an input has in the file (TensorProto.DataType),
  // where that of the value may be wider. 0: it is not known.
  int ElementType(int i) const;

  const Value& value(ValueId id) const;
  const Shape& shape(ValueId id) const { return value(id).shape; }
  DType dtype(ValueId id) const { return value(id).dtype; }
  int rank(ValueId id) const { return shape(id).rank(); }
  // Returns the numbers of a value that is constant. FAILED_PRECONDITION as
  // Known.
  absl::StatusOr<HostTensor> KnownValue(ValueId id, absl::string_view what);

  // Return an attribute, or `otherwise` when it is absent. INVALID_ARGUMENT
  // when it has another type.
  bool has_attribute(absl::string_view name) const;
  absl::StatusOr<int64_t> Int(absl::string_view name, int64_t otherwise) const;
  absl::StatusOr<double> Float(absl::string_view name, double otherwise) const;
  absl::StatusOr<std::string> String(absl::string_view name,
                                     absl::string_view otherwise) const;
  absl::StatusOr<std::vector<int64_t>> Ints(
      absl::string_view name, std::vector<int64_t> otherwise) const;
  absl::StatusOr<std::vector<double>> Floats(
      absl::string_view name, std::vector<double> otherwise) const;
  // Returns a list of texts, empty when the attribute is absent.
  absl::StatusOr<std::vector<std::string>> Strings(
      absl::string_view name) const;
  // Returns a dense tensor attribute. INVALID_ARGUMENT when it is absent.
  absl::StatusOr<HostTensor> TensorAttribute(absl::string_view name) const;
  // Returns an attribute that holds an element type's number
  // (TensorProto.DataType). UNIMPLEMENTED for types that values cannot have.
  absl::StatusOr<DType> TypeAttribute(absl::string_view name,
                                      DType otherwise) const;
  // Returns nullptr when the attribute is absent.
  const onnx::AttributeProto* attribute(absl::string_view name) const;

  // Adds a node. Or computes its outputs at once when all inputs are constants
  // and the result has at most kMaxFoldedElements elements. Errors name the
  // node.
  absl::StatusOr<ValueIds> EmitAll(Op op, absl::Span<const ValueId> inputs,
                                   Attributes attributes = {});
  absl::StatusOr<ValueId> Emit(Op op, absl::Span<const ValueId> inputs,
                               Attributes attributes = {});
  // Adds a node even when all inputs are constants.
  absl::StatusOr<ValueId> EmitUnfolded(Op op, absl::Span<const ValueId> inputs,
                                       Attributes attributes);
  absl::StatusOr<ValueId> Emit(Op op, std::initializer_list<ValueId> inputs,
                               Attributes attributes = {}) {
    return Emit(op, absl::MakeConstSpan(inputs.begin(), inputs.size()),
                std::move(attributes));
  }
  // Add common nodes. They add nothing where nothing is to be done, such as a
  // reshape to the same shape or a cast to the same type.
  absl::StatusOr<ValueId> Unary(UnaryFunction function, ValueId x,
                                double alpha = 0, double beta = 0);
  absl::StatusOr<ValueId> Binary(BinaryFunction function, ValueId a, ValueId b);
  // Does the same with a right operand that is a number of x's type.
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

  // The program's inputs "seed" and "step" (int64 []), which the first call
  // adds, and a stream number that no other node has.
  struct RandomSource {
    ValueId seed, step;
    uint64_t stream = 0;
  };
  absl::StatusOr<RandomSource> Random();
  // Declares that `value`, an output of the last emitted node, overwrites the
  // persistent value. Both must have the same type.
  absl::Status Update(ValueId value, ValueId persistent);
  // Returns the graph so far, for Gradient, which reads it as a whole. Nodes
  // that are added through it are not computed at import.
  GraphBuilder& builder();

  // Converts an axis in [-rank, rank) to one in [0, rank). INVALID_ARGUMENT
  // names the axis.
  absl::StatusOr<int> Axis(int64_t axis, int rank) const;

  int output_count() const;
  // Returns whether output i has a name and so may be read.
  bool wants_output(int i) const;
  // Sets output i. Every wanted output must be set. Others may be.
  // `element_type` is the one in the file, where that is known.
  void Set(int i, ValueId id, int element_type = 0);

  // Returns INVALID_ARGUMENT "Conv 'conv1': <parts>".
  template <typename... Parts>
  absl::Status Refuse(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ": ", parts...));
  }
  // Returns UNIMPLEMENTED with the same text, for an unsupported form of an
  // operator.
  template <typename... Parts>
  absl::Status Unsupported(const Parts&... parts) const {
    return absl::UnimplementedError(absl::StrCat(Name(), ": ", parts...));
  }
  // Returns operator and name, as "Conv 'conv1'".
  std::string Name() const;

  GraphImporter& importer() { return *importer_; }

 private:
  // Puts the name of this node into the text of an error.
  absl::StatusOr<ValueIds> Named(absl::StatusOr<ValueIds> outputs) const;

  const onnx::NodeProto& node_;
  const int opset_;
  GraphImporter* importer_;
};

using Lowering = absl::Status (*)(NodeContext&);

}  // namespace gpupool::engine::onnx_import
